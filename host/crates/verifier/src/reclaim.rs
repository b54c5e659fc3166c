//! Giving back what root made in a run's directory, where the caller is not root: the kernel's own part of an
//! overlay, and what steps wrote under `user: root`. A second container of the same image does it, because
//! nobody else on the machine may.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::container::Container;
use super::docker_error::Phase;
use super::engine::{Engine, WORK};
use super::image::ResolvedImage;
use super::owner;
use super::request::{ContainerRequest, bind};
use act_audit::Audit;
use act_core::process::Process;
use act_core::verification::InfraError;
use act_records::artifacts::STEP_PARTS;

/// For a tree of any size that a run leaves.
const LIMIT: Duration = Duration::from_secs(90);

/// Makes `ids` the owner of everything in the run's directory and in `cache`, links themselves included.
pub(super) async fn reclaim(
    engine: &Engine,
    image: &ResolvedImage,
    audit: &Audit,
    run: &Path,
    cache: Option<&Path>,
    ids: (u32, u32),
) -> Result<(), InfraError> {
    let inside = STEP_PARTS.into_iter().chain(["overlay", "view"]).map(|part| run.join(part));
    let directories = inside.chain(cache.map(Path::to_owned));
    let directories: Vec<PathBuf> = directories.filter(|path| path.is_dir()).collect();
    let mut mounts = vec![];
    for (number, directory) in directories.iter().enumerate() {
        mounts.push(bind(directory, &format!("/reclaim/{number}"), false)?);
    }
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let deadline = act_core::clock::now().timestamp() + 600;
    let labels = owner::labels(Process::this(), &name, deadline);
    let request = ContainerRequest::chore(image, mounts, 600, labels);
    let never = CancellationToken::new();
    let name = format!("act-{name}-reclaim");
    let Some(container) = Container::start(engine, name, request, image, audit, &never).await?
    else {
        return Ok(());
    };
    let (uid, gid) = ids;
    let script = format!("chown -hR {uid}:{gid} /reclaim; chmod -R u+rwX /reclaim");
    let done = tokio::time::timeout(LIMIT, run_in(engine, &container.name, script)).await;
    container.remove().await?;
    done.unwrap_or(Ok(()))
}

async fn run_in(engine: &Engine, container: &str, script: String) -> Result<(), InfraError> {
    let config = ExecConfig {
        attach_stdout: Some(true),
        cmd: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), script]),
        ..ExecConfig::default()
    };
    let exec = engine.call(Phase::Exec, WORK, engine.docker.create_exec(container, config)).await?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
    let started = engine.docker.start_exec(&exec.id, Some(options));
    if let StartExecResults::Attached { mut output, .. } =
        engine.call(Phase::Exec, WORK, started).await?
    {
        // Its end is the script's; whether all went well shows when the host cleans up.
        while let Some(Ok(_)) = output.next().await {}
    }
    Ok(())
}
