package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
)

// orders are the sortable columns of rows: texts in ascending order, figures in descending order.
type orders[T any] map[string]func(row *T) any

// sort sorts rows by the column named in the URL, in reverse after a dash. Otherwise, the rows are
// sorted by the fallback, if that is a column.
func (o orders[T]) sort(rows []T, q query, fallback string) order {
	column, isBack := strings.CutPrefix(q.Get("sort"), "-")
	if o[column] == nil {
		column, isBack = fallback, false
	}
	value := o[column]
	if value == nil {
		return order{column, false}
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		result := compare(value(&a), value(&b))
		if isBack {
			return -result
		}
		return result
	})
	return order{column, isBack}
}

// sortWhole sorts a list if the whole list is shown. The server can't sort longer lists.
func (o orders[T]) sortWhole(items []T, shown rows, q query) order {
	if shown.Total > shown.Shown {
		return order{}
	}
	return o.sort(items, q, "-")
}

// compare orders texts alphabetically, and figures from the largest to the smallest.
func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string))
	case int:
		return cmp.Compare(b.(int), a)
	case float64:
		return cmp.Compare(b.(float64), a)
	case time.Time:
		return b.(time.Time).Compare(a)
	}
	return 0
}

// A heading is the heading of a sortable column.
type heading struct{ Title, URL, Sorted, Class string }

// Sort returns the heading of a column, for the template "sort". The column contains figures unless
// marked as text. Without sortable rows, the heading has no URL.
func (f *frame) Sort(column, title string, text ...bool) heading {
	h := heading{Title: title, Class: "n"}
	directions := [2]string{"descending", "ascending"}
	if len(text) > 0 {
		h.Class, directions = "", [2]string{"ascending", "descending"}
	}
	to := column
	if f.order.column == column {
		h.Sorted = directions[0]
		if to = "-" + column; f.order.isBack {
			h.Sorted, to = directions[1], column
		}
	}
	if f.order.column == "" {
		return h
	}
	h.URL = f.with(url.Values{"from": nil, "sort": {to}})
	return h
}
