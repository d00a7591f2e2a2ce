package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

//go:embed lemon/lemon.cpp
var lemonSource []byte

var lemonFlags = []string{"-O3", "-march=native", "-DNDEBUG", "-std=c++17", "-w"}

// LemonAlgorithms are those of [Lemon], the first being the one to compare with.
var LemonAlgorithms = []string{"networksimplex", "costscaling"}

// ErrMissing is wrapped by errors that tell what to install.
var ErrMissing = errors.New("peer: not available")

// Lemon is the LEMON graph library (Dezső, Jüttner, Kovács, 2011) behind a small
// program of ours, compiled on first use and kept in the user's cache.
type Lemon struct {
	program    string
	algorithms string
}

// NewLemon compiles the program. Algorithms are some of [LemonAlgorithms]; none
// means all.
func NewLemon(ctx context.Context, algorithms ...string) (*Lemon, error) {
	if len(algorithms) == 0 {
		algorithms = LemonAlgorithms
	}
	for _, a := range algorithms {
		if a != LemonAlgorithms[0] && a != LemonAlgorithms[1] {
			return nil, fmt.Errorf("peer: lemon has no algorithm %q: choose some of %s", a, strings.Join(LemonAlgorithms, ", "))
		}
	}
	compiler, err := exec.LookPath("g++")
	if err != nil {
		return nil, fmt.Errorf("%w: lemon needs a compiler: apt-get install g++ liblemon-dev", ErrMissing)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("peer: no folder for the compiled program: %w", err)
	}
	key := sha256.Sum256(append([]byte(strings.Join(lemonFlags, " ")), lemonSource...))
	folder := filepath.Join(cache, "sluice", fmt.Sprintf("lemon-%x", key[:6]))
	l := &Lemon{program: filepath.Join(folder, "lemon"), algorithms: strings.Join(algorithms, ",")}
	if _, err := os.Stat(l.program); err == nil {
		return l, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	// Compiled beside and renamed, so that no half-written program is ever run.
	half := fmt.Sprintf("%s.%d", l.program, os.Getpid())
	defer func() { _ = os.Remove(half) }()
	args := append(append([]string{}, lemonFlags...), "-x", "c++", "-", "-o", half)
	cmd := exec.CommandContext(ctx, compiler, args...)
	cmd.Stdin = bytes.NewReader(lemonSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("lemon/")) {
			return nil, fmt.Errorf("%w: lemon's headers are not installed: apt-get install liblemon-dev", ErrMissing)
		}
		return nil, fmt.Errorf("peer: compiling lemon.cpp: %w: %s", err, firstLine(out))
	}
	if err := os.Rename(half, l.program); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return l, nil
}

// Name returns "lemon".
func (l *Lemon) Name() string { return "lemon" }

// Solve runs each algorithm once on the problem in the file.
func (l *Lemon) Solve(ctx context.Context, _ *flowgraph.Network, file string) ([]Answer, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, l.program, l.algorithms, file)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("peer: lemon: %w: %s", err, firstLine(stderr.Bytes()))
	}
	var answers []Answer
	for line := range strings.Lines(string(out)) {
		a, err := parseAnswer(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("peer: lemon printed %q: %w", strings.TrimSpace(line), err)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func parseAnswer(f []string) (Answer, error) {
	if len(f) != 5 {
		return Answer{}, errors.New("five fields wanted")
	}
	objective, err1 := strconv.ParseInt(f[2], 10, 64)
	wall, err2 := strconv.ParseFloat(f[3], 64)
	cpu, err3 := strconv.ParseFloat(f[4], 64)
	return Answer{Algorithm: f[0], Optimal: f[1] == "optimal", Objective: objective, WallMS: wall, CPUMS: cpu}, errors.Join(err1, err2, err3)
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}
