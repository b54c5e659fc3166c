//! What the administrator's policy asks of a task or a verification as a whole. What it takes from components is
//! decided where they are loaded.

use super::audit::anchoring;
use act_component::registry::Policy;
use act_config::{Config, ConfigCeiling};
use act_core::Failure;

/// Refuses what the policy does not want, and takes from the pipeline what it does not give.
pub(super) fn hold(policy: &Policy, config: &mut Config) -> Result<(), Failure> {
    pinned(policy, &config.pipeline.image)?;
    if policy.require_anchor {
        anchoring::is_set_up(Some(&config.root))?;
    }
    let user = ConfigCeiling::of_user();
    // A query of a Scout is a call of a component as well, which has a limit of its own in the policy.
    let scout_timeout = Some(policy.ceiling.limits.wall);
    config.lower(&user, &ConfigCeiling { scout_timeout, ..policy.config });
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
