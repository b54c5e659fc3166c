//! Container images: of CI, of Dockerfiles, and the one that is suggested for verification.

use crate::draft::{Draft, Rank};
use crate::facts::{Location, Prerequisite};
use crate::statement::{Statement, script};
use crate::tree::{Tree, location};
use crate::version::{Claim, allows, contradict, numbers};
use act_kit::inventory::name;
use act_kit::paths::directory;
use act_kit::reports::commands::Family;

/// Maximum number of bytes of one Dockerfile that are read.
const LINES: usize = 400;
const FILES: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) reference: String,
    pub(crate) location: Location,
}

impl Image {
    /// Returns `None` for a computed name and for a text that is no image.
    pub(crate) fn of(reference: &str, location: Location) -> Option<Self> {
        let reference = reference.trim().trim_matches(['"', '\'']);
        let plain = |c: char| c.is_ascii_alphanumeric() || "./:_-@".contains(c);
        let fits = !reference.is_empty() && reference.len() < 200 && reference.chars().all(plain);
        (fits && reference != "scratch").then(|| Self { reference: reference.to_owned(), location })
    }

    /// Returns the last part of the name, without the tag.
    fn name(&self) -> &str {
        let without = self.reference.split('@').next().unwrap_or_default();
        let last = without.rsplit('/').next().unwrap_or_default();
        last.split(':').next().unwrap_or_default()
    }

    fn tag(&self) -> Option<&str> {
        let without = self.reference.split('@').next()?;
        without.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
    }

    fn tool(&self) -> Option<&'static str> {
        Some(match self.name() {
            "node" | "javascript-node" | "typescript-node" => "node",
            "python" => "python",
            "golang" | "go" => "go",
            "rust" => "rust",
            "openjdk" | "eclipse-temurin" | "amazoncorretto" => "java",
            _ => return None,
        })
    }

    pub(crate) fn claim(&self) -> Option<Claim> {
        let version = self.tag()?.split('-').next()?;
        numbers(version)?;
        Some(Claim::exact(self.tool()?, version, self.location.clone()))
    }

    pub(crate) fn prerequisite(&self) -> Prerequisite {
        Prerequisite {
            name: self.name().to_owned(),
            version: self.tag().map(str::to_owned),
            source: self.location.clone(),
        }
    }

    /// Returns whether the image is for projects of a family.
    fn fits(&self, family: Family) -> bool {
        let names: &[&str] = match family {
            Family::Cargo => &["rust"],
            Family::Go => &["golang", "go"],
            Family::Node => &["node", "javascript-node", "typescript-node"],
            Family::Python => &["python"],
            Family::Maven => &["maven"],
            Family::Gradle => &["gradle"],
            Family::Cmake => &["cmake", "gcc-cmake", "cpp"],
            Family::Any => return true,
        };
        names.contains(&self.name())
    }
}

/// The images, statements and prerequisites of all Dockerfiles.
#[derive(Debug, Default)]
pub(crate) struct Docker {
    pub(crate) images: Vec<Image>,
    pub(crate) statements: Vec<Statement>,
    pub(crate) prerequisites: Vec<Prerequisite>,
}

pub(crate) fn docker(tree: &Tree<'_>) -> Docker {
    let mut docker = Docker::default();
    let dockerfile = |path: &&str| {
        let name = name(path);
        let called = name == "Dockerfile"
            || name.starts_with("Dockerfile.")
            || name.ends_with(".Dockerfile");
        called && path.matches('/').count() <= 2
    };
    for path in tree.inventory.paths().filter(dockerfile).take(FILES) {
        let Some(text) = tree.text(path) else { continue };
        let mut stages = Vec::new();
        let mut run = None::<(String, u32)>;
        for (line, number) in text.lines().zip(1..).take(LINES) {
            if let Some((mut so_far, at)) = run.take() {
                so_far.push('\n');
                so_far.push_str(line);
                docker.goes_on(line, so_far, at, path, &mut run);
                continue;
            }
            let words = line.split_whitespace().collect::<Vec<_>>();
            match words.as_slice() {
                [from, rest @ ..] if from.eq_ignore_ascii_case("from") => {
                    let mut rest = rest.iter().filter(|word| !word.starts_with("--"));
                    let reference = rest.next().copied().unwrap_or_default();
                    if !stages.contains(&reference) {
                        docker.images.extend(Image::of(reference, location(path, number)));
                    }
                    stages.extend(rest.nth(1).copied());
                }
                [first, ..] if first.eq_ignore_ascii_case("run") => {
                    let body = line.trim_start().get(3..).unwrap_or_default().to_owned();
                    docker.goes_on(line, body, number, path, &mut run);
                }
                _ => {}
            }
        }
    }
    docker
}

impl Docker {
    fn goes_on(
        &mut self,
        line: &str,
        body: String,
        at: u32,
        path: &str,
        run: &mut Option<(String, u32)>,
    ) {
        if line.trim_end().ends_with('\\') {
            *run = Some((body, at));
            return;
        }
        self.prerequisites.extend(crate::ci::packages(&body, at, path));
        // The directory inside the image is by custom that of the Dockerfile.
        self.statements.extend(script(&body, path, at, directory(path), Rank::Ci));
    }
}

/// Suggests an image: the user's own, else one that CI or a Dockerfile builds in, else an official one of a fitting version.
pub(crate) fn suggested(
    own: Option<String>,
    first: Option<&Draft>,
    ci: &[Image],
    docker: &[Image],
) -> String {
    if let Some(own) = own {
        return own;
    }
    let Some(draft) = first else { return "debian:stable-slim".to_owned() };
    // An image of a version that the project excludes is a conflict and no suggestion.
    let ruled_out = |image: &Image| {
        let claim = image.claim();
        claim.is_some_and(|claim| {
            let same = draft.claims.iter().filter(|other| other.tool == claim.tool);
            same.into_iter().any(|other| contradict(other, &claim))
        })
    };
    let mut images = ci.iter().chain(docker);
    if draft.family != Family::Any
        && let Some(image) = images.find(|image| image.fits(draft.family) && !ruled_out(image))
    {
        return image.reference.clone();
    }
    let version = |tool: &str, usual: &str| version(&draft.claims, tool, usual);
    let makes = makes(draft);
    match draft.family {
        Family::Cargo => format!("rust:{}", version("rust", "1")),
        Family::Go => format!("golang:{}", version("go", "1")),
        Family::Node if draft.package_manager == "bun" => "oven/bun:1".to_owned(),
        Family::Node => format!("node:{}", version("node", "22")),
        // The slim image has no make.
        Family::Python if makes => format!("python:{}", version("python", "3.12")),
        Family::Python => format!("python:{}-slim", version("python", "3.12")),
        Family::Maven => format!("maven:3-eclipse-temurin-{}", version("java", "21")),
        Family::Gradle => format!("gradle:8-jdk{}", version("java", "21")),
        // No official image has CMake. This one has a compiler, make and pip, which installs CMake.
        Family::Cmake => "python:3.12".to_owned(),
        Family::Any if draft.prerequisites.iter().any(|p| p.name == "c compiler") => {
            "gcc:14".to_owned()
        }
        // Debian with make, a compiler and other build tools.
        Family::Any if makes => "buildpack-deps:stable".to_owned(),
        Family::Any => "debian:stable-slim".to_owned(),
    }
}

/// Returns whether make installs, builds or tests the project.
fn makes(draft: &Draft) -> bool {
    let commands = draft.project().commands;
    let used = [commands.install, commands.build, commands.test].into_iter().flatten();
    let apart = |c: char| c.is_whitespace() || ";&|()".contains(c);
    used.into_iter().any(|used| used.command.split(apart).any(|word| word == "make"))
}

/// Returns a pinned version that the ranges allow, else the usual one if they allow it, else the first that a range names.
fn version(claims: &[Claim], tool: &str, usual: &str) -> String {
    let claims = claims.iter().filter(|claim| claim.tool == tool).collect::<Vec<_>>();
    let ranges = claims.iter().filter(|claim| !claim.exact).collect::<Vec<_>>();
    let allowed =
        |version: &str| ranges.iter().all(|claim| allows(&claim.spec, version) != Some(false));
    if let Some(pinned) = claims.iter().find(|claim| claim.exact && allowed(&claim.spec)) {
        return pinned.spec.clone();
    }
    if allowed(usual) {
        return usual.to_owned();
    }
    let named =
        ranges.iter().flat_map(|claim| claim.spec.split(|c: char| !c.is_ascii_digit() && c != '.'));
    let mut named = named.map(|word| word.trim_matches('.')).filter(|word| numbers(word).is_some());
    let fits = named.find(|version| allowed(version));
    // Tags with two numbers exist in every registry.
    fits.map_or(usual.to_owned(), |version| {
        let short = version.split('.').take(2).collect::<Vec<_>>().join(".");
        short.trim_end_matches(".0").to_owned()
    })
}
