module conformance/oracle

go 1.26.8
