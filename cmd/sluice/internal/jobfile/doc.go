// Package jobfile reads what people write by hand, such as job files, from YAML into messages of the API, and writes such files.
//
// There is no second description of a job: the keys of a file are the fields of the message, found through its
// descriptor, so that a field which is added to the API is at once part of the format and none can be dropped on the
// way. Where a file differs from the message, it does so by these rules alone:
//
//   - a field with a unit in its name loses the unit, and takes a number with a unit: cpu_milli is `cpu: 500m` or
//     `cpu: 0.5`, memory_bytes is `memory: 64Mi`. The table is in units.go;
//   - a dimension of a pool may lose its unit in the same way, and then amounts of it have one: `dimension: memory, limit: 4Gi`;
//   - a duration is written as in Go, `1m30s`, and a time as in RFC 3339, `2026-05-01T12:00:00Z`;
//   - an enumeration's value is written in lower case without the name of the enumeration: `type: batch`;
//   - a message that holds nothing but one list is written as that list: `argv: [sort, -u]`;
//   - bytes are the text itself.
//
// Reading is strict. Unknown keys, values of another type, two members of one choice, aliases and tags are refused,
// each with file, line and column, all in one error. What the values mean is not judged here: the server does that.
package jobfile
