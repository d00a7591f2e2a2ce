package main

import (
	"encoding/json"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// What is printed as YAML looks as people expect it, and quotes what some reader would take for something else.
func TestJSONBecomesYAML(t *testing.T) {
	const from = `{"name":"web","empty":{},"none":[],"tasks":[{"job":"a/0","ports":[80,81],"state":{"ready":true}},[1,[2.5]],"x"],
"cost":1e-7,"big":1.5e+21,"nothing":null,"uid":"12",
"script":"set -e\n\n\techo hi\n","last":["a\n  b","a\nb\n"],"y":"no","time":"12:30:45","nan":".nan","what":"?","tab":"a\tb","color":"\u001b[31m",
"gap":"a \nb","blank":"\na","more":"a\n\n","windows":"a\r\nb","line":"a\u2028b","a\nb":"é 😀","del":"\u007f","bom":"\ufeff","sentence":"it runs on h0 (2)","":"",
"merge":"<<","value":"=","<<":"a","=":"b"}`
	const want = `name: web
empty: {}
none: []
tasks:
- job: a/0
  ports:
  - 80
  - 81
  state:
    ready: true
- - 1
  - - 2.5
- x
cost: 1.0e-7
big: 1.5e+21
nothing: null
uid: "12"
script: |
  set -e

  	echo hi
last:
- |-
  a
    b
- |
  a
  b
"y": "no"
time: "12:30:45"
nan: ".nan"
what: '?'
tab: "a\tb"
color: "\e[31m"
gap: "a \nb"
blank: |2-

  a
more: |+
  a

windows: "a\r\nb"
line: "a\Lb"
? |-
  a
  b
: "é \U0001F600"
del: "\x7F"
bom: "\uFEFF"
sentence: it runs on h0 (2)
"": ""
merge: "<<"
value: "="
"<<": a
"=": b
`
	got, err := toYAML([]byte(from))
	require.NoError(t, err)
	require.Equal(t, want, string(got))

	readAs(t, from, got)
	for _, whole := range []string{`[]`, `{}`, `"a b"`, `3`, `[{"a":[{}]}]`} {
		got, err := toYAML([]byte(whole))
		require.NoError(t, err)
		readAs(t, whole, got)
	}
	_, err = toYAML([]byte(`{"a":[1`))
	require.Error(t, err)
}

// readAs requires that YAML says the same as JSON.
func readAs(t *testing.T, want string, got []byte) {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal(got, &v), string(got))
	back, err := json.Marshal(v)
	require.NoError(t, err)
	require.JSONEq(t, want, string(back), string(got))
}
