module my-plugin

go 1.24

require go.bytecodealliance.org/pkg v0.4.0

// What generated bindings use comes with them, so that a build needs no network.
replace go.bytecodealliance.org/pkg => ./bindings/pkg
