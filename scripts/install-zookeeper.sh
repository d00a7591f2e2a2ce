#!/bin/sh
# Installs ZooKeeper, against which tests with build tag zookeeper run. Nothing
# else needs it. No server is started: the tests start their own.
set -eu

jar=/usr/share/java/zookeeper.jar
if [ -r "$jar" ] && command -v java >/dev/null; then
	echo "ZooKeeper is installed: $jar"
	exit 0
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "install-zookeeper.sh: needs root or sudo to install packages" >&2
		exit 1
	}
	as_root=sudo
fi
[ -r /etc/debian_version ] || {
	echo "install-zookeeper.sh: knows Debian only: install ZooKeeper and Java yourself, and its jar as $jar" >&2
	exit 1
}
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends zookeeper default-jre-headless
echo "ZooKeeper is installed: $jar"
