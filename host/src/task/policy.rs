//! What the administrator's policy asks of a task or a verification as a whole. What it takes from components is
//! decided where they are loaded.

use super::audit::anchoring;
use act_component::registry::Policy;
use act_config::Config;
use act_core::Failure;

/// Refuses what the policy does not want, and takes from the pipeline what it does not give.
pub(super) fn hold(policy: &Policy, config: &mut Config) -> Result<(), Failure> {
    pinned(policy, &config.pipeline.image)?;
    if policy.require_anchor {
        anchoring::is_set_up(Some(&config.root))?;
    }
    if !policy.step_network {
        config.pipeline.cut_off();
    }
    Ok(())
}

/// An image that its tag could move away from under us.
fn pinned(policy: &Policy, image: &str) -> Result<(), Failure> {
    if policy.allow_unpinned_images || image.contains("@sha256:") {
        return Ok(());
    }
    let message =
        format!("image {image} is not pinned by digest, as the administrator's policy wants it");
    Err(Failure::refused("image_unpinned", message)
        .hint("write it as NAME@sha256:DIGEST in verification.container_image"))
}
