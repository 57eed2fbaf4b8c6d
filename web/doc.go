// Package web is a dashboard that shows the state of every job of a namespace, and repairs jobs.
//
// A [Handler] is an http.Handler that a program mounts under any prefix. It needs no external
// assets, no build step and no Start: data is read while a page is open, once for all viewers.
// Pages are rendered on the server and work without JavaScript; a small script adds live updates.
// Each URL answers with JSON if the request prefers it.
//
//	dashboard, err := web.New(web.Options{Prefix: "/queues"}, web.Source{Client: client})
//	...
//	mux.Handle("/queues/", authenticated(dashboard))
//
// The dashboard does not authenticate its users: anyone who can reach it may do everything that
// [Options] allow. Mount it behind a handler that authenticates.
package web
