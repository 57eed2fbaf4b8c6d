// Package web is a dashboard: it shows what every job of a namespace does, and repairs it.
//
// A [Handler] is an http.Handler that a program mounts under any prefix. It needs no assets from
// elsewhere, no build step and no Start: its data is read while a page is open, once for all
// viewers. Each page is HTML from the server and works without JavaScript; a small script adds live
// updates. Each URL answers JSON to a request that prefers it.
//
//	dashboard, err := web.New(web.Options{Prefix: "/queues"}, web.Source{Client: client})
//	...
//	mux.Handle("/queues/", authenticated(dashboard))
//
// The dashboard does not authenticate its users: anyone who can reach it may do what [Options]
// allow. Mount it behind something that authenticates.
package web
