//! The plans suite.
