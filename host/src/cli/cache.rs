//! `act cache`: lists and clears the download caches of the pipelines, and the warm bases.

use std::collections::BTreeSet;

use clap::Subcommand;
use serde::Serialize;

use super::{answer, block_on};
use crate::output::{Line, Output};
use act_core::exit::Exit;
use act_core::{Failure, Repo};
use act_records::artifacts::{BaseSize, CacheSize};
use act_task::{self as task, OnEngine};
use act_verifier::CacheVolume;

const AFTER_HELP: &str = "\
Examples:
  act cache
  act cache clear

Exit codes:
  0 done, 1 the caches cannot be read or removed";

const CLEAR_HELP: &str = "\
Examples:
  act cache clear
  act cache clear --json | jq .in_use

Exit codes:
  0 cleared, even if some are in use and stay; 1 a cache cannot be removed";

/// Show or clear the download caches and the warm bases
///
/// Pipelines download into caches. Each pair of image and repository has a cache in the artifact directory, or in a volume if the engine cannot mount
/// local directories. The caches hold downloads only. A warm base holds what `prepare` made of a commit.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Cache {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the caches with their sizes
    #[command(after_long_help = "Examples:\n  act cache show\n  act cache show --json | jq .bytes")]
    Show,
    /// Remove every cache that no run is using
    #[command(after_long_help = CLEAR_HELP)]
    Clear,
}

impl Cache {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let total = |caches: &[CacheSize]| caches.iter().map(|cache| cache.bytes).sum::<u64>();
        match self.action {
            None | Some(Action::Show) => {
                let list = block_on(task::list_caches())??;
                warn(output, &list.on_engine);
                let document = Shown {
                    path: list.path.to_string_lossy().into_owned(),
                    bytes: total(&list.caches) + total_of(&list.bases),
                    caches: documents(&list.caches),
                    bases: bases(&list.bases, &list.lost),
                    on_engine: volumes(&list.on_engine),
                };
                let last = format!("{} in {}", size(document.bytes), document.path);
                let all = (&*list.caches, &*list.bases, &list.lost);
                let lines = || lines(all, &list.on_engine, &last);
                answer(output, &Document::Shown(document), lines);
            }
            Some(Action::Clear) => {
                let list = block_on(task::clear_caches())??;
                warn(output, &list.on_engine);
                let document = Cleared {
                    cleared: documents(&list.cleared),
                    cleared_bases: bases(&list.bases, &BTreeSet::new()),
                    bytes: total(&list.cleared) + total_of(&list.bases),
                    cleared_on_engine: volumes(&list.on_engine),
                    in_use: list.in_use,
                };
                let mut last = format!("{} cleared", size(document.bytes));
                if document.in_use > 0 {
                    last.push_str(&format!(", {} in use and left", document.in_use));
                }
                let none = BTreeSet::new();
                let all = (&*list.cleared, &*list.bases, &none);
                let lines = || lines(all, &list.on_engine, &last);
                answer(output, &Document::Cleared(document), lines);
            }
        }
        Ok(Exit::Ok)
    }
}

/// The document of `act cache --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Document {
    Shown(Shown),
    Cleared(Cleared),
}

impl act_core::Document for Document {
    const NAME: &'static str = "cache";
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Shown {
    path: String,
    bytes: u64,
    caches: Vec<OnDisk>,
    /// What `prepare` left of commits, for the attempts of tasks.
    bases: Vec<Base>,
    /// Null when no engine answers.
    on_engine: Option<Vec<Volume>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Cleared {
    cleared: Vec<OnDisk>,
    cleared_bases: Vec<Base>,
    bytes: u64,
    /// Null when no engine answers.
    cleared_on_engine: Option<Vec<Volume>>,
    /// Caches and bases that were left because a run uses them.
    in_use: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OnDisk {
    image: String,
    /// Name of the repository's directory, and a part of the digest of its path.
    repo_key: String,
    bytes: u64,
    files: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "WarmBase"))]
struct Base {
    key: String,
    /// The repository by its path. Nothing else is recorded about it here.
    repo: Repo,
    /// The image of the pipeline, by its name.
    image: String,
    /// Bytes of its files and of its image.
    bytes: u64,
    /// The engine has its image no more, so no run can use it. The next task removes it.
    image_lost: bool,
}

/// A cache whose size only the engine's machine knows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Volume {
    image: String,
    /// Name of the repository's directory, and a part of the digest of its path.
    repo_key: String,
    volume: String,
}

fn total_of(bases: &[BaseSize]) -> u64 {
    bases.iter().map(|base| base.bytes).sum()
}

fn bases(bases: &[BaseSize], lost: &BTreeSet<String>) -> Vec<Base> {
    let document = |base: &BaseSize| Base {
        key: base.key.clone(),
        repo: Repo { path: Some(base.repo.clone()), ..Repo::default() },
        image: base.image.clone(),
        bytes: base.bytes,
        image_lost: lost.contains(&base.key),
    };
    bases.iter().map(document).collect()
}

fn documents(caches: &[CacheSize]) -> Vec<OnDisk> {
    let document = |cache: &CacheSize| OnDisk {
        image: cache.image.clone(),
        repo_key: cache.repo.clone(),
        bytes: cache.bytes,
        files: cache.files,
    };
    caches.iter().map(document).collect()
}

fn volumes(found: &OnEngine) -> Option<Vec<Volume>> {
    let document = |cache: &CacheVolume| Volume {
        image: cache.image.clone(),
        repo_key: cache.repo.clone(),
        volume: cache.volume.clone(),
    };
    found.as_ref().ok().map(|caches| caches.iter().map(document).collect())
}

fn warn(output: &Output, found: &OnEngine) {
    if let Err(why) = found {
        output.caution(&format!("caches in volumes of an engine are not listed: {why}"));
    }
}

/// Returns a line for each cache and `last`. Only the engine's machine knows the size of a volume.
fn lines(
    (caches, bases, lost): (&[CacheSize], &[BaseSize], &BTreeSet<String>),
    on_engine: &OnEngine,
    last: &str,
) -> Vec<Line> {
    let line = |size: &str, image: &str, repo: &str| {
        let image: String = image.chars().take(12).collect();
        Line::plain(format!("{size:>10}  {image}  {repo}"))
    };
    let on_disk = caches.iter().map(|it| line(&size(it.bytes), &it.image, &it.repo));
    let volumes = on_engine.iter().flatten().map(|it| line("on engine", &it.image, &it.repo));
    let bases = bases.iter().map(|it| {
        let gone = match lost.contains(&it.key) {
            true => ", whose image is gone; the next task removes it",
            false => "",
        };
        line(&size(it.bytes), &it.key, &format!("warm base of {}{gone}", it.repo))
    });
    on_disk.chain(bases).chain(volumes).chain([Line::plain(last)]).collect()
}

/// Returns a size with at most three digits before the point, and its unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_written_down() {
        act_core::event::schema::document_holds::<Document>();
    }

    // CLI-15
    #[test]
    fn a_cache_is_a_line_with_its_size() {
        let cache = CacheSize {
            image: "0123456789abcdef".into(),
            repo: "app-1f2e3d4c5b6a".into(),
            bytes: 5 * 1024 * 1024,
            files: 7,
        };
        let (image, volume) = ("0123456789abcdef".into(), "act-cache-1".into());
        let on_engine = Ok(vec![CacheVolume { volume, image, repo: "app-1".into() }]);
        let base = BaseSize {
            key: "fedcba9876543210".into(),
            repo: "/x/app".into(),
            image: "rust:1".into(),
            engine: "unix:///run".into(),
            container_image: None,
            bytes: 3 << 30,
        };
        let text = |on_engine: &OnEngine| {
            let (caches, bases) = (std::slice::from_ref(&cache), std::slice::from_ref(&base));
            let lines = lines((caches, bases, &BTreeSet::new()), on_engine, "last");
            lines.iter().map(|line| line.render(false)).collect::<String>()
        };
        assert_eq!(
            text(&on_engine),
            "   5.0 MiB  0123456789ab  app-1f2e3d4c5b6a\n   3.0 GiB  fedcba987654  warm base of /x/app\n on \
             engine  0123456789ab  app-1\nlast\n"
        );
        let lost = BTreeSet::from([base.key.clone()]);
        let all = (&[][..], std::slice::from_ref(&base), &lost);
        let shown = lines(all, &Err("no".into()), "last")[0].render(false);
        assert!(shown.ends_with("of /x/app, whose image is gone; the next task removes it\n"));
        assert!(super::bases(std::slice::from_ref(&base), &lost)[0].image_lost);
        assert!(text(&Err("no".into())).ends_with("  warm base of /x/app\nlast\n"));
        assert_eq!(volumes(&on_engine).map(|volumes| volumes.len()), Some(1));
        assert!(volumes(&Err("no".into())).is_none());
        assert_eq!(
            (size(0), size(2048), size(3 << 40)),
            ("0 B".into(), "2.0 KiB".into(), "3.0 TiB".into())
        );
    }
}
