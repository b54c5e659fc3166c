//! Checks the container engine: its image, its limits and containers of dead runs.

use super::{Check, Config};
use act_verifier::{Engine, Machine};

const MIB: u64 = 1 << 20;

pub(super) async fn check(config: Option<&Config>) -> Vec<Check> {
    let found = match std::env::var("DOCKER_HOST") {
        Ok(host) if !host.is_empty() => "from DOCKER_HOST",
        _ => "the default socket",
    };
    let engine = match Engine::connect().await {
        Ok(engine) => engine,
        Err(error) => {
            let message =
                format!("Docker unavailable: tried {} ({found}): {}", error.host, error.why);
            return vec![Check::red("engine", message, error.hint)];
        }
    };
    let identity = engine.identity();
    let what = format!("{} {} at {} ({found})", identity.name, identity.version, engine.host());
    let mut checks = vec![Check::ok("engine", what)];
    if let Some(config) = config {
        checks.push(image(&engine, &config.pipeline.image).await);
        checks.push(match engine.machine().await {
            Ok(machine) => limits(config, machine),
            Err(error) => Check::note("limits", error.to_string(), "look at the log of the engine"),
        });
    }
    checks.push(left_over(&engine).await);
    checks
}

async fn image(engine: &Engine, image: &str) -> Check {
    match engine.find_image(image).await {
        Ok(Some(found)) => {
            let message =
                format!("{image} is present ({}/{}, {})", found.os, found.arch, found.digest);
            Check::ok("image", message)
        }
        Ok(None) => Check::note(
            "image",
            format!("{image} is not present yet"),
            format!("the first task pulls it; or run `docker pull {image}` now"),
        ),
        Err(error) => Check::red(
            "image",
            error.to_string(),
            "correct verification.container_image in agent.yaml",
        ),
    }
}

fn limits(config: &Config, machine: Machine) -> Check {
    let asked = config.pipeline.limits;
    let memory = machine.memory_bytes / MIB;
    let message = format!(
        "a step may use {} CPUs and {} MiB of memory; the engine has {} CPUs and {memory} MiB",
        asked.cpus, asked.memory_mb, machine.cpus
    );
    if memory > 0 && asked.memory_mb > memory {
        let fix = format!(
            "set verification.limits.memory_mb below {memory}, so that a step that uses too much memory is stopped \
             before the machine runs out of it"
        );
        return Check::note("limits", message, fix);
    }
    Check::ok("limits", message)
}

async fn left_over(engine: &Engine) -> Check {
    match engine.left_over().await {
        Ok(names) if names.is_empty() => Check::ok("leftovers", "no container of a dead run"),
        Ok(names) => Check::note(
            "leftovers",
            format!("containers of dead runs: {}", names.join(", ")),
            format!("the next task removes them; or run `docker rm -f {}` now", names.join(" ")),
        ),
        Err(error) => Check::note("leftovers", error.to_string(), "look at the log of the engine"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn limits_beyond_the_machine_are_noted_with_a_number_that_fits() {
        // DOCTOR-4
        let temp = tempfile::tempdir().unwrap();
        let yaml = "verification:\n  container_image: x\n  steps: [{name: a, command: b}]\n";
        std::fs::write(temp.path().join("agent.yaml"), yaml).unwrap();
        let config = act_config::load(temp.path()).unwrap();
        let of = |mib: u64| limits(&config, Machine { cpus: 2, memory_bytes: mib * MIB });
        assert_eq!(of(16_000).level, Level::Ok);
        let small = of(4_000);
        assert_eq!(small.level, Level::Note);
        assert!(small.fix.unwrap().contains("below 4000"));
    }
}
