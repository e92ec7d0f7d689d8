//! The simulation suite.
