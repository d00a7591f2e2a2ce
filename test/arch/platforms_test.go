package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// TestCompilesElsewhere checks the types of all packages and tests as on another platform, from source: to compile what is imported for it,
// as go vet does, takes minutes.
func TestCompilesElsewhere(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	ours := func(name string) bool { return strings.HasPrefix(name, root+string(filepath.Separator)) }
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
		Dir:   root,
		Env:   append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(files *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution|parser.AllErrors)
			if f == nil || ours(name) {
				return f, err
			}
			for _, d := range f.Decls { // of others the declarations will do
				if fn, ok := d.(*ast.FuncDecl); ok {
					fn.Body = nil
				}
			}
			return f, err
		},
	}, "./...")
	require.NoError(t, err)
	require.Greater(t, len(all), len(table))
	for _, p := range all {
		for _, e := range p.Errors {
			if e.Pos == "" || ours(e.Pos) {
				t.Error(e)
			}
		}
	}
}
