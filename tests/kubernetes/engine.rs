//! The cluster that `scripts/test-kubernetes` has started, in place of an engine of this machine.

use std::process::Command;

pub(crate) fn engine_address() -> Option<std::ffi::OsString> {
    Some("unix:///nonexistent/docker.sock".into())
}

/// The image of the steps, which every node has.
pub(crate) fn image() -> &'static str {
    "docker.io/library/act-test-busybox:1"
}

fn given(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name}: scripts/test-kubernetes sets it"))
}

/// Returns the user's `engines.toml` with the cluster as its only engine. `more` are further lines.
pub(crate) fn engines_toml(namespace: &str, more: &str) -> String {
    format!(
        "[[engine]]\nname = \"cluster\"\nkind = \"kubernetes\"\nnamespace = \"{namespace}\"\nloader = \"{}\"\n\
         requests = {{ cpu = \"50m\", memory = \"32Mi\" }}\nslots = 8\n{more}\n",
        given("ACT_TEST_LOADER")
    )
}

/// The namespace of the tests.
pub(crate) fn namespace() -> String {
    given("ACT_TEST_NAMESPACE")
}

/// The kubeconfig of an account that has the rights of the role and no others.
pub(crate) fn kubeconfig() -> String {
    given("KUBECONFIG")
}

/// Runs a command of `scripts/lib/kubernetes-cluster` and returns what it prints.
#[track_caller]
pub(crate) fn cluster(arguments: &[&str]) -> String {
    let script = act_core::testing::checkout().join("scripts/lib/kubernetes-cluster");
    let ran = Command::new(script).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns how many processes of a node have these words in their command line. The search itself is no such process.
#[track_caller]
pub(crate) fn processes(node: &str, words: &str) -> usize {
    let search = "for line in /proc/[0-9]*/cmdline; do \
                  if [ ${line%/cmdline} != /proc/$$ ] && tr '\\0' ' ' <$line 2>/dev/null | grep -qF -- \"$1\"; then echo; fi; done";
    // The words of the search are no argument of a process on the node but of this shell.
    cluster(&["node", node, "sh", "-c", search, "search", words]).lines().count()
}

/// Returns the objects of a run in the namespace: Pods, Leases and policies that name it.
#[track_caller]
pub(crate) fn objects(run: &str) -> Vec<String> {
    let listed = cluster(&[
        "kubectl",
        "-n",
        &namespace(),
        "get",
        "pods,leases,networkpolicies",
        "-l",
        "app.kubernetes.io/managed-by=act",
        "-o",
        "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.annotations.act\\.labels}{\"\\n\"}{end}",
    ]);
    listed.lines().filter(|line| line.contains(run)).map(str::to_owned).collect()
}
