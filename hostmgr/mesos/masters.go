package mesos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Masters says where to look for the leading master.
type Masters struct {
	Addresses []string // host:port of masters, or of ZooKeeper servers
	Path      string   // in ZooKeeper, beginning with '/'; "" where Addresses are masters
}

// defaultMasterPort and defaultZooKeeperPort are used where an address has no port.
const (
	defaultMasterPort    = "5050"
	defaultZooKeeperPort = "2181"
)

// ParseMasters reads "HOST[:PORT],HOST[:PORT]..." or "zk://HOST[:PORT],HOST[:PORT].../PATH".
func ParseMasters(s string) (Masters, error) {
	var m Masters
	list, port := s, defaultMasterPort
	if rest, ok := strings.CutPrefix(s, "zk://"); ok {
		hosts, path, _ := strings.Cut(rest, "/")
		if m.Path = "/" + strings.Trim(path, "/"); m.Path == "/" {
			return m, fmt.Errorf("mesos: masters: %q has no path; write it as zk://HOST:PORT,HOST:PORT/mesos", s)
		}
		if strings.Contains(hosts, "@") {
			return m, errors.New("mesos: masters: credentials for ZooKeeper are not supported; leave out what is before the '@'")
		}
		list, port = hosts, defaultZooKeeperPort
	}
	for _, a := range strings.Split(list, ",") {
		a = strings.TrimSpace(a)
		if a == "" || strings.Contains(a, "/") {
			return m, fmt.Errorf("mesos: masters: %q is not a list of addresses such as HOST:5050,HOST:5050 or zk://HOST:2181/mesos", s)
		}
		address, ok := withPort(a, port)
		if !ok {
			return m, fmt.Errorf("mesos: masters: %q is not an address such as HOST:%s", a, port)
		}
		m.Addresses = append(m.Addresses, address)
	}
	return m, nil
}

// withPort completes an address that may have no port, and tells whether it makes sense.
func withPort(a, port string) (string, bool) {
	host, number, err := net.SplitHostPort(a)
	if err != nil {
		host, number = strings.Trim(a, "[]"), port
		if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
			return "", false
		}
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return net.JoinHostPort(host, number), err == nil && n > 0 && host != ""
}

// detector finds masters.
type detector interface {
	// next returns the master to try next, and a channel that is closed when another one leads; nil if that cannot be
	// known. It waits where there is no master.
	next(ctx context.Context) (address string, changed <-chan struct{}, err error)
	close()
}

// list tries addresses in turn; a master that does not lead redirects to the one that does.
type list struct {
	addresses []string
	at        int
}

func (l *list) next(context.Context) (string, <-chan struct{}, error) {
	address := l.addresses[l.at%len(l.addresses)]
	l.at++
	return address, nil, nil
}

func (l *list) close() {}

func (c *Config) detector() (detector, error) {
	m, err := ParseMasters(c.Masters)
	switch {
	case err != nil:
		return nil, err
	case m.Path != "":
		return newZooKeeper(m, c.TLS != nil, c.Dial, c.Log)
	default:
		return &list{addresses: m.Addresses}, nil
	}
}
