//! What stands between the steps and the machine, as words and as one digest: what was asked for, and what the
//! engine says is in force.

use bollard::models::{ContainerCreateBody, ContainerInspectResponse, HostConfig};
use serde::Serialize;

use act_audit::{Decision, Entry, Event};
use act_workspace::digest;

pub(crate) fn requested(name: &str, body: &ContainerCreateBody) -> Entry {
    let words = words(body.user.as_deref(), body.host_config.as_ref());
    Entry::new(Event::ContainerRequested)
        .object(name)
        .decision(Decision::Allow)
        .digest("request", Some(&canonical_digest(body)))
        .names(words)
}

pub(crate) fn inspected(name: &str, found: &ContainerInspectResponse) -> Entry {
    let user = found.config.as_ref().and_then(|config| config.user.as_deref());
    // Without what changes from one look to the next.
    let fixed = (&found.image, &found.config, &found.host_config, &found.mounts);
    Entry::new(Event::ContainerInspected)
        .object(name)
        .digest("inspect", Some(&canonical_digest(&fixed)))
        .digest("container", found.id.as_deref())
        .names(words(user, found.host_config.as_ref()))
}

/// Of its JSON with the keys in order.
fn canonical_digest(value: &impl Serialize) -> String {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    value.sort_all_objects();
    digest(value.to_string().as_bytes())
}

fn words(user: Option<&str>, host: Option<&HostConfig>) -> Vec<String> {
    let mut words = vec![format!("user={}", user.unwrap_or_default())];
    let Some(host) = host else { return words };
    let list = |items: Option<&Vec<String>>| items.map(|items| items.join(",")).unwrap_or_default();
    words.extend([
        format!("privileged={}", host.privileged.unwrap_or(false)),
        format!("cap_drop={}", list(host.cap_drop.as_ref())),
        format!("cap_add={}", list(host.cap_add.as_ref())),
        format!("security_opt={}", list(host.security_opt.as_ref())),
        format!("network={}", host.network_mode.as_deref().unwrap_or("default")),
        format!("ipc={}", host.ipc_mode.as_deref().unwrap_or_default()),
        format!("pid={}", host.pid_mode.as_deref().unwrap_or_default()),
        format!("memory={}", host.memory.unwrap_or_default()),
        format!("pids={}", host.pids_limit.unwrap_or_default()),
        format!("devices={}", host.devices.as_ref().map_or(0, Vec::len)),
    ]);
    let binds = host.binds.iter().flatten().map(|bind| format!("bind {bind}"));
    let mounts = host.mounts.iter().flatten().map(|mount| {
        let how = if mount.read_only.unwrap_or(false) { "ro" } else { "rw" };
        format!("mount {} {how}", mount.target.as_deref().unwrap_or_default())
    });
    words.extend(binds.chain(mounts));
    words
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::{ContainerConfig, Mount};

    use super::*;

    // AUDIT-10
    #[test]
    fn the_walls_are_said_in_words_and_the_whole_by_a_digest_that_does_not_depend_on_order() {
        let labels = |order: [usize; 3]| {
            let mut body = ContainerCreateBody {
                user: Some("1000:1000".to_owned()),
                host_config: Some(HostConfig {
                    cap_drop: Some(vec!["ALL".to_owned()]),
                    network_mode: Some("none".to_owned()),
                    mounts: Some(vec![Mount {
                        target: Some("/workspace".to_owned()),
                        read_only: Some(true),
                        ..Mount::default()
                    }]),
                    ..HostConfig::default()
                }),
                ..ContainerCreateBody::default()
            };
            body.labels = Some(order.map(|n| (format!("l{n}"), "x".to_owned())).into());
            body
        };
        let (one, other) = (labels([1, 2, 3]), labels([3, 1, 2]));
        assert_eq!(canonical_digest(&one), canonical_digest(&other));
        let words = words(one.user.as_deref(), one.host_config.as_ref());
        for word in [
            "user=1000:1000",
            "cap_drop=ALL",
            "network=none",
            "privileged=false",
            "mount /workspace ro",
        ] {
            assert!(words.iter().any(|said| said == word), "no {word} in {words:?}");
        }
    }

    #[test]
    fn what_the_engine_says_is_looked_at_without_what_changes() {
        let found = |status: &str| ContainerInspectResponse {
            id: Some("abc".to_owned()),
            name: Some(status.to_owned()),
            config: Some(ContainerConfig {
                labels: Some(HashMap::from([("a".to_owned(), "b".to_owned())])),
                ..ContainerConfig::default()
            }),
            ..ContainerInspectResponse::default()
        };
        let digest = |found: &ContainerInspectResponse| {
            canonical_digest(&(&found.image, &found.config, &found.host_config, &found.mounts))
        };
        assert_eq!(digest(&found("one")), digest(&found("two")));
    }
}
