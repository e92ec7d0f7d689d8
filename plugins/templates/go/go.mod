module my-plugin

go 1.24

require go.bytecodealliance.org/pkg v0.4.0
