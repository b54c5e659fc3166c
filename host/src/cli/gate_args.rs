//! What commands that run the gate without a task take.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct GateArgs {
    /// Repository, or a directory in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) repo: PathBuf,
    /// Show what the steps print
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}
