package console

import (
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

// page is what the template shows.
type page struct {
	Title    string
	Above    []link // what the thing is part of, the outermost first
	Problems []string
	Parts    []part

	User    string
	Time    string // when it was made
	Section string // path of the part of the pages that it belongs to
	Style   string
	Script  template.JS // only where it is asked for anew
	Refresh int         // seconds; 0: never
	Keep    string      // what the links of all pages end in
	Toggle  string      // the same page, that is asked for anew where this is not, and the other way round; "": neither
}

// part is a section of a page. What is empty is left out.
type part struct {
	Heading    string
	Form       []field
	Note       string
	Properties []property
	Table      *table
	Text       string // of several lines, as it is
	Folded     bool   // shown on demand
	More       *link
}

// field is an input of a form that filters a list.
type field struct {
	Name, Label, Value string   // without a label it is not shown
	Options            []string // nil: any text
	Otherwise          string   // what is shown where none of the options is chosen
}

type link struct{ Text, To string }

type property struct {
	Name  string
	Value cell
}

type table struct {
	Caption string
	Columns []column
	Rows    [][]cell
	None    string // said where there are no rows
}

type column struct {
	Name    string
	Numeric bool
}

// cell is a piece of text, perhaps one that leads somewhere.
type cell struct {
	Text, To string
	State    string // shows as one
	Meter    *meter
	Counts   []cell // how many there are, and then in each state
}

// Empty reports whether there is nothing to show.
func (c cell) Empty() bool { return c.Text == "" && c.Meter == nil && c.Counts == nil }

// countsOf has each number of a text such as "5: 3 pending, 2 failed" lead to those in that state of a list. What is none of the states
// leads nowhere.
func countsOf(text, list, prefix string, states map[string]int32) cell {
	all, each, _ := strings.Cut(text, ": ")
	counts := []cell{{Text: all, To: list}}
	for part := range strings.SplitSeq(each, ", ") {
		_, state, _ := strings.Cut(part, " ")
		count := cell{Text: part}
		if states[prefix+strings.ToUpper(state)] != 0 {
			count.To = filtered(list, "state", state)
		}
		counts = append(counts, count)
	}
	if each == "" {
		counts = counts[:1]
	}
	return cell{Counts: counts}
}

// meter shows Value of Max.
type meter struct{ Value, Max int64 }

// links says, by the name of a column or a property, below which path the page is that a value names.
type links map[string]string

// the names that mean the same wherever they are.
var common = links{
	"POOL": "/pools", "HOST": "/hosts", "TASK": "/tasks", "BOUND-BY": "/pools", "pool": "/pools", "host": "/hosts", "bound to": "/hosts",
}

// to returns where a value leads, "" for nowhere.
func (l links) to(name, value string) string {
	path, ok := l[name]
	if !ok {
		path = common[name]
	}
	if path == "" || value == "" {
		return ""
	}
	return to(path, value)
}

// to is the address of the page of a name, whose parts a slash separates, below a path.
func to(path, name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return path + "/" + strings.Join(parts, "/")
}

// filtered is the address of a list with a filter.
func filtered(path, key string, values ...string) string {
	return path + "?" + url.Values{key: values}.Encode()
}

// tableOf makes a table of one that commands print.
func tableOf(caption string, t words.Table, l links, none string) *table {
	shown := &table{Caption: caption, None: none}
	names := strings.Fields(t.Heading)
	for i, name := range names {
		shown.Columns = append(shown.Columns, column{Name: label(name), Numeric: i > 0 && numeric(t.Rows, i)})
	}
	for _, row := range t.Rows {
		cells := make([]cell, len(row))
		for i, value := range row {
			cells[i] = cell{Text: words.Visible(value, ""), To: l.to(names[i], value)}
			if names[i] == "STATE" {
				cells[i].State = value
			}
		}
		shown.Rows = append(shown.Rows, cells)
	}
	return shown
}

// label writes the name of a column as a heading: BOUND-BY is "Bound by".
func label(name string) string {
	parts := strings.Split(name, "-")
	for i, p := range parts {
		switch p {
		case "CPU", "GPU", "API":
			continue
		case "GIB":
			parts[i] = "GiB"
			continue
		}
		if parts[i] = strings.ToLower(p); i == 0 {
			parts[i] = p[:1] + parts[i][1:]
		}
	}
	return strings.Join(parts, " ")
}

// numeric reports whether there are numbers in a column, and nothing else.
func numeric(rows [][]string, i int) bool {
	some := false
	for _, row := range rows {
		if row[i] == "" {
			continue
		}
		if _, err := strconv.ParseFloat(row[i], 64); err != nil {
			return false
		}
		some = true
	}
	return some
}

// propertiesOf makes properties of those that commands print.
func propertiesOf(all []words.Property) (shown []property) {
	for _, p := range all {
		if p[1] == "" {
			continue
		}
		value := cell{Text: words.Visible(p[1], ""), To: common.to(p[0], p[1])}
		if p[0] == "state" {
			value.State = p[1]
		}
		shown = append(shown, property{Name: p[0], Value: value})
	}
	return shown
}

// capacity shows what is allocated of all there is, and what of that was measured to be used, nil where there is nothing.
func capacity(total, allocated, used *sluicev1.ResourceVector) *table {
	t := &table{Caption: "What is allocated to tasks, of all there is, and what they were measured to use", Columns: []column{
		{Name: "Resource"}, {Name: "Used", Numeric: true}, {Name: "Allocated", Numeric: true}, {Name: "Capacity", Numeric: true}, {Name: "Part"},
	}}
	for _, whole := range words.Amounts(total) {
		find := func(in *sluicev1.ResourceVector, none string) words.Amount {
			amounts := words.Amounts(in)
			if i := slices.IndexFunc(amounts, func(a words.Amount) bool { return a.Name == whole.Name }); i >= 0 {
				return amounts[i]
			}
			return words.Amount{Word: none}
		}
		of := find(allocated, "0")
		t.Rows = append(t.Rows, []cell{{Text: whole.Name}, {Text: find(used, "").Word}, {Text: of.Word}, {Text: whole.Word}, partOf(of.Number, whole.Number)})
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// partOf shows n as a part of all, nothing where that is 0.
func partOf(n, all int64) cell {
	if all == 0 {
		return cell{}
	}
	return cell{Text: strconv.FormatInt(int64(100*float64(n)/float64(all)), 10) + " %", Meter: &meter{Value: min(n, all), Max: all}}
}

// setRefresh has a page asked for anew, unless its address says refresh=0, which its forms and links keep.
func (p *page) setRefresh(u *url.URL) {
	q := u.Query()
	if q.Get("refresh") == "0" {
		q.Del("refresh")
		p.Keep = "?refresh=0"
		for _, to := range p.links() {
			if *to != "" {
				sep := "?"
				if strings.Contains(*to, "?") {
					sep = "&"
				}
				*to += sep + "refresh=0"
			}
		}
		for i := range p.Parts {
			if form := &p.Parts[i].Form; *form != nil {
				*form = append(*form, field{Name: "refresh", Value: "0"})
			}
		}
	} else {
		p.Refresh = refreshEvery
		q.Set("refresh", "0")
	}
	p.Toggle = (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: q.Encode()}).String()
}

// links are where the links of a page lead, save those that all pages have; "" for what is none.
func (p *page) links() (all []*string) {
	for i := range p.Above {
		all = append(all, &p.Above[i].To)
	}
	for i := range p.Parts {
		part := &p.Parts[i]
		for j := range part.Properties {
			all = append(all, part.Properties[j].Value.links()...)
		}
		if part.Table != nil {
			for _, row := range part.Table.Rows {
				for j := range row {
					all = append(all, row[j].links()...)
				}
			}
		}
		if part.More != nil {
			all = append(all, &part.More.To)
		}
	}
	return all
}

func (c *cell) links() []*string {
	all := []*string{&c.To}
	for i := range c.Counts {
		all = append(all, &c.Counts[i].To)
	}
	return all
}

// none says that a list is empty: what there could be, or, where the address has a filter, how to see what there is.
func (v *visit) none(what, otherwise string) string {
	for key, values := range v.request.URL.Query() {
		if key != "refresh" && key != "order" && len(given(values)) > 0 {
			return "There is no such " + what + ": filter by less to see others."
		}
	}
	return otherwise
}

// next is the address of the page of a list after this one, nil where this is the last.
func next(u *url.URL, token string) *link {
	if token == "" {
		return nil
	}
	q := u.Query()
	q.Set("page", token)
	q.Del("refresh") // links keep it
	return &link{Text: "Next page", To: (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: q.Encode()}).String()}
}
