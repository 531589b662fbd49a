// Package rows has the rows of analytics: the tables of a [Database], how two rows of one
// name become one, the figures that a row has as bytes, and how long rows are kept
// ([Bounds]). Package count writes them, retention prunes them, query reads them, and
// report makes answers of what was read.
package rows
