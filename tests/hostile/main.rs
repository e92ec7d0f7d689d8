//! The hostile suite.
