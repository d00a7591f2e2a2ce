//go:build !linux

package hugepage

func advise[E any]([]E) {}
