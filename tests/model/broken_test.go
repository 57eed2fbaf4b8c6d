package model

var breakActions = []action{}
