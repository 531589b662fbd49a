module github.com/weirlimit/weir

go 1.26
