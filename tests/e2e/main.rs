//! The e2e suite.
