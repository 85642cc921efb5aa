//! The conformance suite: what every device must pass, and the one table of tolerances.
