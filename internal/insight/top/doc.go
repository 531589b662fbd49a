// Package top shows on a terminal what a server decides, while it does.
package top
