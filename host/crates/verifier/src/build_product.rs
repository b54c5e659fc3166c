//! What builds and tests are known to leave beside the source, whether or not `.gitignore` names it.

/// Directories; a `*` at the front stands for any beginning.
const DIRECTORIES: [&str; 37] = [
    "node_modules",
    "target",
    "dist",
    "build",
    "out",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".output",
    ".turbo",
    ".parcel-cache",
    ".vite",
    ".cache",
    ".angular",
    ".gradle",
    ".kotlin",
    ".pnpm-store",
    ".yarn",
    ".npm",
    "*.egg-info",
    "*.dist-info",
    ".eggs",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".venv",
    "venv",
    "coverage",
    ".nyc_output",
    "htmlcov",
    "test-results",
    "playwright-report",
    ".bundle",
];

const FILES: [&str; 34] = [
    // Lock files where there was none; a changed one is a changed source.
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "Pipfile.lock",
    "go.sum",
    "go.work.sum",
    "Gemfile.lock",
    "composer.lock",
    "gradle.lockfile",
    "*.pyc",
    "*.pyo",
    "*.o",
    "*.obj",
    "*.a",
    "*.so",
    "*.class",
    "*.tsbuildinfo",
    "*.profraw",
    "*.gcda",
    "*.gcno",
    ".coverage",
    ".eslintcache",
    "coverage.xml",
    "coverage.out",
    "lcov.info",
    "junit.xml",
    "npm-debug.log",
    "yarn-error.log",
];

/// Whether a directory of this name, with all in it, is one.
pub(crate) fn is_product_directory(name: &[u8]) -> bool {
    DIRECTORIES.iter().any(|known| fits(name, known))
}

/// Whether a new file of this name is one.
pub(crate) fn is_product_file(name: &[u8]) -> bool {
    name.starts_with(b".coverage.") || FILES.iter().any(|known| fits(name, known))
}

fn fits(name: &[u8], known: &str) -> bool {
    match known.strip_prefix('*') {
        Some(end) => name.ends_with(end.as_bytes()) && name.len() > end.len(),
        None => name == known.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-25
    #[test]
    fn builds_are_known_by_their_names_and_snapshots_are_no_builds() {
        for name in ["node_modules", "pkg.egg-info", "target", "__pycache__"] {
            assert!(is_product_directory(name.as_bytes()), "{name}");
        }
        for name in ["src", "__snapshots__", "tests", ".egg-info", "snapshots", "distribution"] {
            assert!(!is_product_directory(name.as_bytes()), "{name}");
        }
        for name in ["Cargo.lock", "a.pyc", ".coverage", ".coverage.host.1"] {
            assert!(is_product_file(name.as_bytes()), "{name}");
        }
        for name in ["a.snap", "a.py", "Cargo.toml", "package.json", "data.json", "coverage.py"] {
            assert!(!is_product_file(name.as_bytes()), "{name}");
        }
    }
}
