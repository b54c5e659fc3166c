//! `act metrics`: results, durations and token use of all tasks, for people, programs and Prometheus.

mod prometheus;
mod text;

use std::path::Path;

use crate::output::Output;
use crate::task;
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act metrics
  act metrics --prometheus > /var/lib/node_exporter/act.prom";

/// Show results, durations and token use of all tasks
///
/// Counts the tasks of every repository that uses this artifact directory, since the first task, including tasks whose
/// runs were deleted.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Metrics {
    /// Print in the exposition format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Metrics {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let metrics = task::metrics(Path::new("."))?;
        if self.json {
            output.document(&metrics);
        } else if self.prometheus {
            output.result(&prometheus::exposition(&metrics));
        } else {
            text::lines(&metrics).iter().for_each(|line| output.result_line(line));
        }
        Ok(Exit::Ok)
    }
}
