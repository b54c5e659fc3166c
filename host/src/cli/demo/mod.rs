//! `act demo`.
use crate::exit::Exit;
use crate::output::{Failure, Output};
#[derive(Debug, clap::Args)]
pub(super) struct Demo {
    #[arg(short, long)]
    pub(super) verbose: bool,
}
impl Demo {
    pub(super) fn run(self, _color: super::Color, _output: &Output) -> Result<Exit, Failure> {
        Ok(Exit::Ok)
    }
}
