//! Python: a module is searched beside the file's outermost package, in every directory above, and in `src` and `lib`
//! there. A name that is imported from a package may be a module of it. Inside a package an absolute import never means
//! a sibling.

use super::Resolver;
use act_kit::paths::{directory, join, upwards};
use act_kit::summaries::Imported;

pub(super) fn files(resolver: &Resolver<'_>, from: &str, import: &Imported<'_>) -> Vec<usize> {
    let dots = import.target.chars().take_while(|c| *c == '.').count();
    let module = import.target[dots..].trim().replace('.', "/");
    let bases = match dots {
        0 => roots(resolver, from, &module),
        dots => upwards(directory(from)).nth(dots - 1).map(str::to_owned).into_iter().collect(),
    };
    bases
        .iter()
        .map(|base| below(resolver, base, &module, import, dots > 0))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// Returns the directories in which an absolute import is searched: none inside of a package. A module of the standard
/// library is only hidden by a file in the first of them.
fn roots(resolver: &Resolver<'_>, from: &str, module: &str) -> Vec<String> {
    let packaged = |at: &&str| resolver.find(&join(at, "__init__.py")).is_some();
    let above = upwards(directory(from)).skip_while(packaged);
    let first = module.split('/').next().unwrap_or_default();
    let standard = STANDARD.split_whitespace().any(|name| name == first);
    above
        .take(if standard { 1 } else { usize::MAX })
        .flat_map(|above| ["", "src", "lib"].map(|inner| join(above, inner)))
        .collect()
}

/// Names of Python's standard library.
const STANDARD: &str = "\
    abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii \
    bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections \
    colorsys compileall concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes \
    curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum \
    errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt \
    getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib imaplib imghdr imp \
    importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging lzma mailbox \
    mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt \
    ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools \
    pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile \
    pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource rlcompleter runpy \
    sched secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket \
    socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep \
    struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios \
    textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty \
    turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref \
    webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo \
";

fn below(
    resolver: &Resolver<'_>,
    base: &str,
    module: &str,
    import: &Imported<'_>,
    relative: bool,
) -> Vec<usize> {
    if module.is_empty() && !relative {
        return vec![];
    }
    let place = join(base, module);
    let itself = match module.is_empty() {
        true => resolver.find(&join(&place, "__init__.py")),
        false => file(resolver, &place),
    };
    let mut found = vec![];
    let mut taken_from_itself = import.names.is_empty();
    for name in &import.names {
        match file(resolver, &join(&place, name)) {
            Some(module) => found.push(module),
            None => taken_from_itself = true,
        }
    }
    if taken_from_itself {
        found.extend(itself);
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn file(resolver: &Resolver<'_>, place: &str) -> Option<usize> {
    resolver.ended(place, &[".py", "/__init__.py", ".pyi"])
}
