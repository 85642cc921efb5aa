//! Names by which a job brings in the outcomes of another system: the method's kind, and the parameters that hopeval
//! itself reads or fills in.

/// The kind of methods whose outcomes are brought in.
pub const KIND: &str = "rankings";

/// The parameter that names the file.
pub const FILE: &str = "file";

/// The parameter with the facts about the file, filled in when the file is read.
pub const CONTENTS: &str = "contents";

/// The parameter with the currency of the file's costs.
pub const CURRENCY: &str = "currency";
