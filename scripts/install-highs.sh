#!/bin/sh
# Installs HiGHS, the linear solver that judges ours in tests with build tag
# highs. Nothing else needs it. On Debian 12, which has no package of it, the
# machine's own source of packages is also asked for the next release, at a
# priority that changes nothing but what HiGHS needs; that includes libc6.
set -eu

if pkg-config --exists highs 2>/dev/null; then
	echo "HiGHS is installed: $(pkg-config --modversion highs)"
	exit 0
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "install-highs.sh: needs root or sudo to install packages" >&2
		exit 1
	}
	as_root=sudo
fi
[ -r /etc/debian_version ] || {
	echo "install-highs.sh: knows Debian only: install HiGHS with its headers and its pkg-config file yourself" >&2
	exit 1
}
. /etc/os-release

next=trixie
target=
if [ "${VERSION_ID%%.*}" -lt 13 ]; then
	target="-t $next"
	sources=$(mktemp)
	# The first entry for this release, in either of apt's two formats, with the
	# suite replaced.
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v from="$VERSION_CODENAME" -v to="$next" '
		BEGIN { RS = ""; FS = "\n" }
		$0 ~ "\nSuites:[^\n]*[ \t]" from "([ \t\n]|$)" && !done {
			for (i = 1; i <= NF; i++) {
				if ($i ~ /^Suites:/) print "Suites: " to
				else if ($i ~ /^Components:/) print "Components: main"
				else if ($i !~ /^#/) print $i
			}
			done = 1
		}' >"$sources"
	name=sluice-$next.sources
	if [ ! -s "$sources" ]; then
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v from="$VERSION_CODENAME" -v to="$next" '
			$1 == "deb" && !done {
				for (i = 2; i <= NF; i++) if ($i == from) {
					line = $1
					for (j = 2; j < i; j++) line = line " " $j
					print line, to, "main"
					done = 1
				}
			}' >"$sources"
		name=sluice-$next.list
	fi
	[ -s "$sources" ] || {
		echo "install-highs.sh: found no source of packages for $VERSION_CODENAME to copy" >&2
		exit 1
	}
	$as_root install -m 644 "$sources" "/etc/apt/sources.list.d/$name"
	rm -f "$sources"
	printf 'Package: *\nPin: release n=%s\nPin-Priority: 100\n' "$next" | $as_root tee "/etc/apt/preferences.d/sluice-$next" >/dev/null
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # target is two words or none
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $target pkg-config libhighs-dev
echo "HiGHS is installed: $(pkg-config --modversion highs)"
