// Package browsertest tests the dashboard of package web in a real browser, on a real server, and
// takes the pictures in docs/images. It is a separate module because of its dependencies.
//
// The tests need Chromium, and are skipped without it. The tests for barriers and for invalid HTML
// need axe-core, and the Nu checker with Java: .ci/install browser installs all of them.
package browsertest
