//go:build !linux

package hugepage

func advise[E any]([]E) {}

func collapse[E any]([]E) {}

func populate[E any]([]E) {}
