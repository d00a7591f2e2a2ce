package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sluice-scheduler/sluice"

// source is one file of a package, whatever its build tags.
type source struct {
	name string // relative to the module
	test bool
	*ast.File
}

// sources reads all packages of the module, by their path in it.
func sources(t *testing.T) (map[string][]source, *token.FileSet) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	files := token.NewFileSet()
	packages := map[string][]source{}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != root && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(base) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(relative))
		packages[pkg] = append(packages[pkg], source{filepath.ToSlash(relative), strings.HasSuffix(base, "_test.go"), f})
		return nil
	})
	require.NoError(t, err)
	return packages, files
}

func imports(f source) []string {
	var all []string
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // was parsed
		all = append(all, p)
	}
	return all
}

func TestEveryPackageIsInTheTable(t *testing.T) {
	packages, _ := sources(t)
	rows := map[string]bool{}
	for _, r := range table {
		require.False(t, rows[r.pkg], "%s has two rows", r.pkg)
		rows[r.pkg] = true
		require.NotEmpty(t, packages[r.pkg], "%s is in the table, but there is no such package", r.pkg)
	}
	for pkg := range packages {
		require.True(t, rows[pkg], "%s is not in the table: say what it may import", pkg)
	}
}

func TestImportsFollowTheTable(t *testing.T) {
	packages, _ := sources(t)
	for _, r := range table {
		for _, f := range packages[r.pkg] {
			if f.test {
				continue
			}
			for _, p := range imports(f) {
				require.True(t, allowed(r, p), "%s imports %q, which its row of the table does not allow", f.name, p)
			}
		}
	}
}

func allowed(r row, imported string) bool {
	if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
		return slices.Contains(r.imports, inside)
	}
	if !strings.Contains(strings.Split(imported, "/")[0], ".") { // the standard library
		return true
	}
	return slices.ContainsFunc(r.imports, func(prefix string) bool {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	})
}

// Imports go one way: no package reaches itself through the rows. (The compiler forbids it for code; the table is to
// stay free of it as well, so that it can be read as layers.)
func TestTableHasNoCycles(t *testing.T) {
	rows := map[string]row{}
	for _, r := range table {
		rows[r.pkg] = r
	}
	state := map[string]int{}
	var visit func(pkg string, way []string)
	visit = func(pkg string, way []string) {
		require.NotEqual(t, 1, state[pkg], "cycle in the table: %v", append(way, pkg))
		if state[pkg] == 2 {
			return
		}
		state[pkg] = 1
		for _, next := range rows[pkg].imports {
			if _, ok := rows[next]; ok {
				visit(next, append(way, pkg))
			}
		}
		state[pkg] = 2
	}
	for _, r := range table {
		visit(r.pkg, nil)
	}
}

// What production code may not import is not in the table, so that it holds for tests as well: settings have one reader,
// and support packages stay out of the binary.
func TestOnlyTheCommandReadsSettings(t *testing.T) {
	packages, _ := sources(t)
	for pkg, all := range packages {
		for _, f := range all {
			require.True(t, strings.HasPrefix(pkg, "cmd/") || !slices.Contains(imports(f), viper), "%s imports viper", f.name)
		}
	}
}

func TestSupportStaysOutOfTheBinary(t *testing.T) {
	packages, _ := sources(t)
	kinds := map[string]kind{}
	for _, r := range table {
		kinds[r.pkg] = r.kind
	}
	for pkg, all := range packages {
		for _, f := range all {
			if f.test || kinds[pkg] == support {
				continue
			}
			for _, p := range imports(f) {
				require.NotEqual(t, support, kinds[strings.TrimPrefix(p, module+"/")], "%s imports %q, which is for tests", f.name, p)
			}
		}
	}
}

// worldly are packages of the standard library that a deterministic package has no use for.
var worldly = []string{
	"crypto/rand", "log", "log/slog", "math/rand", "net", "net/http", "os", "os/exec", "os/signal", "syscall",
}

// impure are functions that make a result depend on something else than the input.
var impure = map[string][]string{
	"time": {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	// The functions of the package draw from a source that is seeded at random; methods of a seeded Rand are fine.
	"math/rand/v2": {
		"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N", "NormFloat64", "Perm", "Shuffle",
		"Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN",
	},
}

// The core gets time, seeds and budgets as inputs: only so does every cycle replay exactly.
func TestTheCoreIsDeterministic(t *testing.T) {
	packages, files := sources(t)
	for _, r := range table {
		if r.kind != pure {
			continue
		}
		for _, f := range packages[r.pkg] {
			if f.test {
				continue
			}
			for _, p := range imports(f) {
				require.NotContains(t, worldly, p, "%s is of the deterministic core", f.name)
			}
			for _, use := range impureUses(f) {
				t.Errorf("%s: %s: the deterministic core gets time and seeds as inputs", files.Position(use.Pos()), use.Sel.Name)
			}
		}
	}
}

// impureUses finds the mentions of impure functions, under whatever name a file imports their package.
func impureUses(f source) []*ast.SelectorExpr {
	names := map[string][]string{}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		bad, ok := impure[p]
		if !ok {
			continue
		}
		name := path.Base(strings.TrimSuffix(p, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = bad
	}
	var uses []*ast.SelectorExpr
	ast.Inspect(f.File, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(names[x.Name], s.Sel.Name) {
				uses = append(uses, s)
			}
		}
		return true
	})
	return uses
}

func TestImpureUsesAreFound(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
import ("time"; dice "math/rand/v2")
var a, b, c = time.Now, dice.IntN(3), dice.New(nil).IntN(3)
type d = time.Duration
`, 0)
	require.NoError(t, err)
	var found []string
	for _, use := range impureUses(source{File: f}) {
		found = append(found, use.Sel.Name)
	}
	require.Equal(t, []string{"Now", "IntN"}, found)
}
