package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
)

// show prints a message: as JSON or YAML as it is, or by calling table.
func (a *app) show(m proto.Message, table func(w io.Writer)) error {
	switch a.config.Output {
	case "json", "yaml":
		compact, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		return a.showJSON(compact)
	}
	return a.showTable(func(w io.Writer) error { table(w); return nil })
}

// noOutput refuses --output where something else says the form. A setting that is for all commands does no harm there.
func noOutput(cmd *cobra.Command, why string) error {
	if cmd.Flags().Changed("output") {
		return usageError(cmd, fmt.Errorf("--output is for other forms: %s", why))
	}
	return nil
}

// showTable prints what table writes, and so does not take a full disk for a success.
func (a *app) showTable(table func(w io.Writer) error) error {
	var b bytes.Buffer
	if err := table(&b); err != nil {
		return err
	}
	_, err := io.WriteString(a.out, words.Visible(b.String(), "\n\t"))
	return err
}

// showValue is show for what is no message.
func (a *app) showValue(v any, table func(w io.Writer) error) error {
	if a.config.Output == "table" {
		return a.showTable(table)
	}
	compact, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return a.showJSON(compact)
}

// showJSON prints JSON in the form that was asked for, indented.
func (a *app) showJSON(compact []byte) error {
	var b bytes.Buffer
	if a.config.Output == "yaml" {
		y, err := toYAML(compact)
		if err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		b.Write(y)
	} else {
		// Indented here: protojson varies its white space on purpose.
		if err := json.Indent(&b, compact, "", "  "); err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		b.WriteByte('\n')
	}
	_, err := a.out.Write(b.Bytes())
	return err
}

// showEach prints one message of a stream: a line of JSON, a document of YAML, or by calling table.
func (a *app) showEach(m proto.Message, table func(w io.Writer)) error {
	switch a.config.Output {
	case "json":
		line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		var b bytes.Buffer
		if err := json.Compact(&b, line); err != nil {
			return fmt.Errorf("printing the answer: %w", err)
		}
		_, err = fmt.Fprintln(a.out, b.String())
		return err
	case "yaml":
		if _, err := fmt.Fprintln(a.out, "---"); err != nil {
			return err
		}
	}
	return a.show(m, table)
}

// showOne shows one answer of a command that may have several: where there is one only, as any other command does, else as showEach.
func (a *app) showOne(of int, m proto.Message, table func(w io.Writer)) error {
	if of > 1 {
		return a.showEach(m, table)
	}
	return a.show(m, table)
}

// table is columns for a table of words.
func table(w io.Writer, t words.Table) { columns(w, t.Heading, t.Rows) }

// columns prints rows under a heading, aligned. An empty cell is shown as "-".
func columns(w io.Writer, heading string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(strings.Fields(heading), "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(words.Visible(cell, ""), "-")
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // into memory, or for who begins to serve
}

// properties prints names with values, aligned, and leaves out what is empty.
func properties(w io.Writer, pairs ...[2]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(t, "%s:\t%s\n", p[0], words.Visible(p[1], ""))
		}
	}
	_ = t.Flush()
}
