package out

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// Print prints a value as JSON if requested, and otherwise as a table.
func (c *Console) Print(value any, rows func() *Table) error {
	if c.JSON {
		return WriteJSON(c.Out, value, "  ")
	}
	return rows().Write(c.Out)
}

// PrintEach shows things one after another. As JSON, a single thing is an object and not an array.
func PrintEach[T any](c *Console, things []T, single bool, show func(T) error) error {
	switch {
	case single && len(things) == 0:
		return nil
	case c.JSON && single:
		return c.Print(things[0], nil)
	case c.JSON:
		return c.Print(things, nil)
	}
	for i, thing := range things {
		if i > 0 {
			fmt.Fprintln(c.Out)
		}
		if err := show(thing); err != nil {
			return err
		}
	}
	return nil
}

// PrintJSON prints the result of a command that otherwise prints messages, if JSON is requested.
func (c *Console) PrintJSON(result any) error {
	if !c.JSON {
		return nil
	}
	return c.Print(result, nil)
}

// WriteJSON writes a value as JSON, without characters that could control a terminal.
func WriteJSON(out io.Writer, value any, indent string) error {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := out.Write(text.EscapeJSON(plain.Bytes()))
	return err
}

// A Colour is a colour of text on a terminal.
type Colour string

const (
	Red    Colour = "31"
	Yellow Colour = "33"
	Dim    Colour = "2"
)

// painted is a table cell with a colour on a terminal.
type painted struct {
	text   string
	colour Colour
}

// Paint returns a cell with a colour on a terminal.
func Paint(text string, c Colour) any { return painted{text, c} }

// A Table has columns as wide as their widest cells. Columns of numbers are aligned to the right.
// On a terminal, the last column is cut to fit.
type Table struct {
	Header []string // or nil
	rows   [][]string
	Empty  string // printed for a table without rows

	colours map[[2]int]Colour
}

// NewTable returns a table without rows. Two spaces separate the column headings.
func NewTable(header, empty string) *Table {
	return &Table{Header: strings.Split(header, "  "), Empty: empty}
}

// Add adds a row.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if p, ok := cell.(painted); ok {
			t.paint(len(t.rows), i, p.colour)
			cell = p.text
		}
		row[i] = text.Clean(fmt.Sprint(cell))
	}
	t.rows = append(t.rows, row)
}

func (t *Table) paint(row, column int, c Colour) {
	if c == "" {
		return
	}
	if t.colours == nil {
		t.colours = map[[2]int]Colour{}
	}
	t.colours[[2]int{row, column}] = c
}

// Write prints the table.
func (t *Table) Write(out io.Writer) error {
	if len(t.rows) == 0 && t.Empty != "" {
		_, err := fmt.Fprintln(out, t.Empty)
		return err
	}
	var lines strings.Builder
	widths, numeric, limit := t.widths(), t.numeric(), terminalWidth(out)
	if t.Header != nil {
		lines.WriteString(format(t.Header, widths, numeric, limit, nil) + "\n")
	}
	style := text.StyleOf(out)
	for i, row := range t.rows {
		paint := func(column int, cell string) string {
			if colour, ok := t.colours[[2]int{i, column}]; ok {
				return style.Paint(string(colour), cell)
			}
			return cell
		}
		lines.WriteString(format(row, widths, numeric, limit, paint) + "\n")
	}
	_, err := io.WriteString(out, lines.String())
	return err
}

// format returns a line of at most limit columns. A limit of 0 means any length.
func format(
	row []string, widths []int, numeric []bool, limit int, paint func(int, string) string,
) string {
	var line strings.Builder
	used := 0
	for column, cell := range row {
		if column > 0 {
			line.WriteString("  ")
			used += 2
		}
		last := column == len(row)-1
		if last && limit > 0 {
			cell = text.Cut(cell, max(limit-used, 8))
		}
		pad := strings.Repeat(" ", max(0, widths[column]-utf8.RuneCountInString(cell)))
		used += widths[column]
		if paint != nil {
			cell = paint(column, cell)
		}
		switch {
		case numeric[column]:
			line.WriteString(pad + cell)
		case last:
			line.WriteString(cell)
		default:
			line.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(line.String(), " ")
}

func (t *Table) widths() []int {
	var widths []int
	for _, row := range append([][]string{t.Header}, t.rows...) {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// number matches numbers with their units, and durations.
var number = regexp.MustCompile(
	`^(-|now|-?[0-9][0-9.,/]*( ?[a-zA-Zµ%]{1,3}([0-9]+[a-z])?)?( ago)?)$`)

// numeric reports for each column whether all cells are numbers or "-". A table without a header
// has names on the left and values on the right.
func (t *Table) numeric() []bool {
	numeric := make([]bool, len(t.widths()))
	for column := range numeric {
		numeric[column] = t.Header != nil && len(t.rows) > 0
		digits := false
		for _, row := range t.rows {
			numeric[column] = numeric[column] && number.MatchString(row[column])
			digits = digits || row[column] != "-" && row[column] != "now"
		}
		numeric[column] = numeric[column] && digits
	}
	return numeric
}

// terminalWidth returns the number of columns of a terminal, or 0 if out is not a terminal.
func terminalWidth(out any) int {
	if !text.IsTerminal(out) {
		return 0
	}
	width, _, err := term.GetSize(int(out.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		return 0
	}
	return width
}
