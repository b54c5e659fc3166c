//! The async runtime of one command; commands that need none never make one.

use act_core::Failure;

pub(super) fn block_on<F: Future>(work: F) -> Result<F::Output, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            Failure::refused("no_runtime", format!("failed to start the async runtime: {error}"))
                .hint("look at the limits for threads and open files (`ulimit -a`)")
        })?;
    let result = runtime.block_on(work);
    // A thread that is stuck in the kernel must not keep the process.
    runtime.shutdown_background();
    Ok(result)
}
