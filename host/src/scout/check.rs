//! Whether a report is believed: its schema, and that every path and line it names is in the repository.

use super::grounding;
use super::query::ReportCheck;
use crate::workspace::RepoView;
