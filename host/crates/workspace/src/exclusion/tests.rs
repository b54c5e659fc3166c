use super::*;
use crate::testing::Fixture;

fn scout(path: &str) -> Option<Rule> {
    if is_secret(path) {
        Some(Rule::Secret)
    } else {
        by_name(Profile::Scout, path, Some(Kind::File))
    }
}

#[test]
fn secrets_are_known_by_name_in_any_case_and_their_directories_hide_what_they_hold() {
    for path in [
        ".env",
        "src/.env.local",
        "prod.env",
        "x/.ENV",
        "aws_credentials",
        "Credentials.json",
        "my-secrets.yaml",
        "secrets/readme.md",
        "client_secret.json",
        "x.PEM",
        "a/server.key",
        "c.p12",
        "c.pfx",
        "id_rsa",
        "id_rsa.pub",
        "id_dsa",
        "id_ed25519",
        ".htpasswd",
        ".netrc",
        ".npmrc",
        ".pypirc",
        "k\u{212a}.\u{212a}ey",
        ".envrc",
        ".pgpass",
        ".my.cnf",
        "deploy/kubeconfig",
        "prod.kubeconfig",
        ".kube/config",
        "ci/.docker/config.json",
        "terraform/prod.tfvars",
        "prod.auto.tfvars.json",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "app.jks",
        "release.Keystore",
        ".vault-token",
        ".ssh/id_work",
        "id_ed25519_sk",
        "passwords.kdbx",
    ] {
        assert_eq!(scout(path), Some(Rule::Secret), "{path}");
    }
    for path in [
        "environment.rs",
        "src/env.rs",
        "keyboard.ts",
        "secretary.md",
        "pem/readme.md",
        "docker/config.json",
        "kube/config",
        "src/id_map/mod.rs",
        "src/id_generator",
        "keystore.rs",
    ] {
        assert_eq!(scout(path), None, "{path}");
    }
}

#[test]
fn binaries_and_tool_directories_are_out_of_a_scouts_view() {
    for path in [
        "a.png", "logo.SVG", "x.tar.gz", "lib.so", "f.woff2", "m.mp4", "d.pdf", "a.sqlite",
        "x.npy", "x.pkl",
    ] {
        assert_eq!(scout(path), Some(Rule::Binary), "{path}");
    }
    for path in [
        "node_modules/a/index.js",
        "web/Node_Modules/x",
        ".venv/x",
        "p/__pycache__/x",
        "dist/a.js",
        "build/x",
        "target/debug/x",
        ".next/x",
        "a.egg-info/x",
    ] {
        assert_eq!(scout(path), Some(Rule::BuildDirectory), "{path}");
    }
    for path in [".git/config", "sub/.GIT/config", ".svn/x", ".hg/x", ".git"] {
        assert_eq!(scout(path), Some(Rule::VersionControl), "{path}");
    }
    assert_eq!(scout("build"), None, "a file of that name is no directory");
    assert_eq!(by_name(Profile::Scout, "build", Some(Kind::Directory)), Some(Rule::BuildDirectory));
    assert_eq!(by_name(Profile::Scout, "icons.png", Some(Kind::Directory)), None);
}

#[test]
fn tools_see_binaries_and_build_directories_but_never_git() {
    for path in ["a.png", "dist/a.js", "node_modules/x"] {
        assert_eq!(by_name(Profile::Tool, path, Some(Kind::File)), None, "{path}");
    }
    assert_eq!(by_name(Profile::Tool, ".git/config", Some(Kind::File)), Some(Rule::VersionControl));
}

#[test]
fn only_our_own_temporary_names_count_as_such() {
    assert!(is_temporary(".act-write-0123456789abcdef.tmp"));
    for name in [
        ".act-write-.tmp",
        ".act-write-0123456789abcdeg.tmp",
        "act-write-0123456789abcdef.tmp",
        "x.tmp",
    ] {
        assert!(!is_temporary(name), "{name}");
    }
}

#[test]
fn every_tracked_file_that_is_out_of_view_is_named_with_its_rule() {
    // DOCTOR-8
    let files = [
        ("src/main.rs", "fn main() {}"),
        (".env", "KEY=1"),
        ("dist/app.js", "x"),
        ("logo.png", "x"),
        ("data", "a\0b"),
        ("untracked.pem", "x"),
    ];
    let fixture = Fixture::new(&files);
    fixture.track(&["src/main.rs", ".env", "dist/app.js", "logo.png", "data", "gone.txt"]);
    let found = hidden_files(&fixture.root).unwrap();
    let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.rule)).collect();
    assert_eq!(
        found,
        [
            (".env", Rule::Secret),
            ("data", Rule::Binary),
            ("dist/app.js", Rule::BuildDirectory),
            ("logo.png", Rule::Binary),
        ]
    );
}

#[test]
fn tracked_names_that_are_not_utf8_are_named_as_out_of_view() {
    // DOCTOR-8, security line 326
    let fixture = Fixture::new(&[("plain", "x")]);
    let names: [&[u8]; 3] = [b"plain", b"odd-\xff", b"target/odd-\xff"];
    fixture.write(".git/index", crate::testing::index(&names));
    let found = hidden_files(&fixture.root).unwrap();
    let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.rule)).collect();
    let odd = ("odd-\u{fffd}", Rule::NotUtf8);
    assert_eq!(found, [odd, ("target/odd-\u{fffd}", Rule::BuildDirectory)]);
}
