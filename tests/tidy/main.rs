//! The tidy suite.
