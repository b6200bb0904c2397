//! The imports between the files of a crate, and the circles among them.
//!
//! A file imports another file if it contains a path into that file. Such a path
//! starts with `crate::`, `super::`, `self::` or the name of a submodule of the
//! importing file. If several modules are prefixes of a path, the path leads into
//! the file of the longest one. Code under `#[cfg(test)]` is left out, because a
//! test may use everything.
//!
//! The reader sees tokens, not names: it finds paths in macros too, but does
//! not follow a re-export or a name that a `use` has brought in. This suffices,
//! because the re-export and the `use` themselves contain a path that the
//! reader finds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The imports between the files of a crate.
#[derive(Debug, PartialEq)]
pub struct ImportGraph {
    /// The files that each file imports. Paths are relative to `src`.
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl ImportGraph {
    /// Reads the files below the directory `src` of a crate.
    pub fn read(src: &Path) -> Self {
        let mut sources = BTreeMap::new();
        collect_sources(src, src, &mut sources);
        assert!(!sources.is_empty(), "no source in {}", src.display());
        Self::of_sources(&sources)
    }

    /// Builds the graph of these sources, by file name.
    fn of_sources(sources: &BTreeMap<String, String>) -> Self {
        let modules: BTreeMap<_, _> = sources
            .keys()
            .map(|file| (module_of(file), file.as_str()))
            .collect();
        let mut imports = BTreeMap::new();
        let mut test_modules = Vec::new();
        for (file, source) in sources {
            let tokens: TokenStream = source
                .parse()
                .unwrap_or_else(|error| panic!("{file} is not Rust: {error}"));
            let mut reader = Reader {
                modules: &modules,
                module: module_of(file),
                found: BTreeSet::new(),
                test_modules: Vec::new(),
            };
            reader.read(tokens);
            reader.found.remove(file);
            test_modules.append(&mut reader.test_modules);
            imports.insert(file.clone(), reader.found);
        }
        let is_test = |file: &String| {
            let module = module_of(file);
            test_modules.iter().any(|test| module.starts_with(test))
        };
        imports.retain(|file, _| !is_test(file));
        for targets in imports.values_mut() {
            targets.retain(|file| !is_test(file));
        }
        Self { imports }
    }

    /// Returns the files that `file` imports.
    pub fn imports_of(&self, file: &str) -> impl Iterator<Item = &str> {
        let targets = self.imports.get(file).into_iter().flatten();
        targets.map(String::as_str)
    }

    /// Returns the files of the crate that the graph has.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.imports.keys().map(String::as_str)
    }

    /// Returns the groups of files that import each other, directly or through
    /// other files of the group. The largest group comes first.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let mut graph = DiGraphMap::<&str, ()>::new();
        for (file, targets) in &self.imports {
            for target in targets {
                graph.add_edge(file, target, ());
            }
        }
        let mut circles = tarjan_scc(&graph);
        circles.retain(|files| files.len() > 1);
        for files in &mut circles {
            files.sort_unstable();
        }
        circles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        circles
    }

    /// Panics if more than `most` files import each other, and prints their
    /// imports.
    pub fn assert_circles_have_at_most(&self, most: usize) {
        let circles = self.circles();
        let large: Vec<_> = circles.iter().filter(|files| files.len() > most).collect();
        let reports: Vec<_> = large.iter().map(|files| self.report(files)).collect();
        assert!(
            reports.is_empty(),
            "import circles of more than {most} files:\n{}",
            reports.join("\n")
        );
    }

    /// Lists the imports within a circle.
    fn report(&self, files: &[&str]) -> String {
        let mut lines = vec![format!("{} files:", files.len())];
        for file in files {
            let targets = self.imports_of(file);
            let within: Vec<_> = targets.filter(|target| files.contains(target)).collect();
            lines.push(format!("  {file} -> {}", within.join(" ")));
        }
        lines.join("\n")
    }
}

/// The name of a module, after the names of the modules that contain it. Empty
/// for the root of the crate.
type ModulePath = Vec<String>;

fn collect_sources(directory: &Path, src: &Path, sources: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).expect("the directory of the sources") {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, src, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(src).unwrap().to_str().unwrap();
            sources.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
}

/// The module that a file holds.
fn module_of(file: &str) -> ModulePath {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let mut names: ModulePath = file.split('/').map(str::to_owned).collect();
    let last = names.last().map(String::as_str);
    let is_root = names.len() == 1 && matches!(last, Some("main" | "lib"));
    if is_root || last == Some("mod") {
        names.pop();
    }
    names
}

/// Reads the paths of one file.
struct Reader<'a> {
    modules: &'a BTreeMap<ModulePath, &'a str>,
    /// The module around the current token; inline modules included.
    module: ModulePath,
    found: BTreeSet<String>,
    /// Modules that exist only in tests.
    test_modules: Vec<ModulePath>,
}

impl Reader<'_> {
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        let mut in_test = false;
        while at < tokens.len() {
            if is_cfg_test(&tokens[at..]) {
                in_test = true;
                at += 2;
            } else if in_test {
                at += self.skip_test_item(&tokens[at..]);
                in_test = false;
            } else {
                at += self.read_one(&tokens, at);
            }
        }
    }

    /// Reads the token at `at`, or the path or module that starts there. Returns
    /// the number of tokens read.
    fn read_one(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        match &tokens[at] {
            TokenTree::Ident(word) if word == "mod" => match &tokens[at..] {
                [_, TokenTree::Ident(name), TokenTree::Group(body), ..] => {
                    self.module.push(name.to_string());
                    self.read(body.stream());
                    self.module.pop();
                    3
                }
                _ => 1,
            },
            TokenTree::Ident(_) if !continues_a_path(&tokens[..at]) => {
                self.read_path(&tokens[at..])
            }
            TokenTree::Group(group) => {
                self.read(group.stream());
                1
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
        }
    }

    /// Reads a path that may lead into another file of the crate.
    fn read_path(&mut self, tokens: &[TokenTree]) -> usize {
        let TokenTree::Ident(first) = &tokens[0] else {
            return 1;
        };
        if !is_double_colon(&tokens[1..]) {
            return 1;
        }
        let mut start = self.module.clone();
        let first = first.to_string();
        match first.as_str() {
            "crate" => start.clear(),
            "self" => {}
            "super" => {
                start.pop();
            }
            _ => {
                start.push(first);
                // The path starts with another crate, a type, or a name that a
                // `use` has brought in.
                if !self.modules.contains_key(&start) {
                    return 1;
                }
            }
        }
        3 + self.read_rest(start, &tokens[3..])
    }

    /// Reads the part of a path after `::`. Returns the number of tokens read.
    fn read_rest(&mut self, mut path: ModulePath, tokens: &[TokenTree]) -> usize {
        let mut at = 0;
        loop {
            match tokens.get(at) {
                Some(TokenTree::Ident(name)) if name == "super" => {
                    path.pop();
                }
                Some(TokenTree::Ident(name)) if name != "self" => path.push(name.to_string()),
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    for branch in inner.split(is_comma).filter(|it| !it.is_empty()) {
                        self.read_rest(path.clone(), branch);
                    }
                    return at + 1;
                }
                _ => {
                    self.record(&path);
                    return at;
                }
            }
            at += 1;
            if !is_double_colon(&tokens[at..]) {
                self.record(&path);
                return at;
            }
            at += 2;
        }
    }

    /// Records the file that the path leads into.
    fn record(&mut self, path: &[String]) {
        let lengths = (0..=path.len()).rev();
        let mut files = lengths.filter_map(|length| self.modules.get(&path[..length]));
        if let Some(file) = files.next() {
            self.found.insert((*file).to_owned());
        }
    }

    /// Skips the item after `#[cfg(test)]`. Returns the number of its tokens.
    fn skip_test_item(&mut self, tokens: &[TokenTree]) -> usize {
        let names: Vec<_> = tokens.iter().take(4).map(ToString::to_string).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        if let ["mod", name, ";", ..] | ["pub", "mod", name, ";"] = names[..] {
            let mut module = self.module.clone();
            module.push(name.to_owned());
            self.test_modules.push(module);
        }
        let is_end = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(mark) => mark.as_char() == ';',
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        let end = tokens.iter().position(is_end);
        end.map_or(tokens.len(), |end| end + 1)
    }
}

fn is_double_colon(tokens: &[TokenTree]) -> bool {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    matches!(tokens, [one, two, ..] if is_colon(one) && is_colon(two))
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',')
}

/// Whether the next name belongs to a path that these tokens began, or to
/// `$crate` in a macro.
fn continues_a_path(before: &[TokenTree]) -> bool {
    let marks = before.iter().rev().map_while(|token| match token {
        TokenTree::Punct(mark) => Some(mark.as_char()),
        TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => None,
    });
    let last: Vec<_> = marks.take(2).collect();
    matches!(last[..], [':', ':'] | ['$', ..])
}

fn is_cfg_test(tokens: &[TokenTree]) -> bool {
    let [TokenTree::Punct(mark), TokenTree::Group(attribute), ..] = tokens else {
        return false;
    };
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    mark.as_char() == '#' && text == "cfg(test)"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(sources: &[(&str, &str)]) -> ImportGraph {
        let sources = sources.iter();
        let sources = sources.map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
        ImportGraph::of_sources(&sources.collect())
    }

    /// The imports of `file` in a crate with the modules `a`, `a::b` and `c`.
    fn imports(file: &str, source: &str) -> Vec<String> {
        let mut sources = BTreeMap::from(
            ["main.rs", "a.rs", "a/b.rs", "c.rs"].map(|file| (file.to_owned(), String::new())),
        );
        sources.insert(file.to_owned(), source.to_owned());
        let graph = ImportGraph::of_sources(&sources);
        graph.imports_of(file).map(str::to_owned).collect()
    }

    #[test]
    fn a_path_belongs_to_the_file_of_its_longest_module() {
        assert_eq!(imports("main.rs", "use crate::a::b::Thing;"), ["a/b.rs"]);
        assert_eq!(imports("main.rs", "use crate::a::Thing;"), ["a.rs"]);
        assert_eq!(imports("a/b.rs", "use crate::Thing;"), ["main.rs"]);
        assert_eq!(imports("main.rs", "use crate::a::*;"), ["a.rs"]);
    }

    #[test]
    fn relative_paths_are_resolved() {
        assert_eq!(imports("a/b.rs", "use super::Thing;"), ["a.rs"]);
        assert_eq!(imports("a/b.rs", "use super::super::c::f;"), ["c.rs"]);
        assert_eq!(imports("a.rs", "use self::b::Thing;"), ["a/b.rs"]);
        assert_eq!(imports("a.rs", "mod b; use b::Thing;"), ["a/b.rs"]);
        assert_eq!(imports("a.rs", "fn f() { b::f() }"), ["a/b.rs"]);
        let inline = "mod within { use super::super::c::f; }";
        assert_eq!(imports("a.rs", inline), ["c.rs"]);
    }

    #[test]
    fn nested_groups_are_followed() {
        let source = "use crate::{a::{self, b::{Thing, Other as It}}, c::f};";
        assert_eq!(imports("main.rs", source), ["a.rs", "a/b.rs", "c.rs"]);
    }

    #[test]
    fn paths_in_code_and_in_macros_count() {
        let source = "fn f() -> crate::a::T { g!(crate::c::X, [crate::a::b::Y]) }";
        assert_eq!(imports("main.rs", source), ["a.rs", "a/b.rs", "c.rs"]);
    }

    #[test]
    fn comments_strings_and_foreign_paths_do_not_count() {
        let source = r#"
            // crate::a
            /// crate::a
            fn f() { "crate::a"; other::a::f(); x::c::f(); $crate::a::f(); std::c::f() }
            pub(crate) fn g() {}
        "#;
        assert_eq!(imports("main.rs", source), Vec::<String>::new());
    }

    #[test]
    fn tests_do_not_count() {
        let source = "
            #[cfg(test)] mod tests { use crate::a::f; }
            #[cfg(test)] fn help() { crate::a::f() }
            use crate::c::f;
        ";
        assert_eq!(imports("main.rs", source), ["c.rs"]);
        let graph = graph(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "#[cfg(test)] mod tests; pub fn f() {}"),
            ("a/tests.rs", "use super::f; mod more;"),
            ("a/tests/more.rs", "use crate::a::f;"),
        ]);
        assert_eq!(graph.files().collect::<Vec<_>>(), ["a.rs", "lib.rs"]);
    }

    #[test]
    fn a_folder_module_is_a_module() {
        let graph = graph(&[
            ("lib.rs", ""),
            ("a/mod.rs", ""),
            ("c.rs", "use crate::a::Thing;"),
        ]);
        assert_eq!(graph.imports_of("c.rs").collect::<Vec<_>>(), ["a/mod.rs"]);
    }

    /// Five files, each of which imports the next; `last` is the source of the
    /// last one.
    fn chain(last: &str) -> ImportGraph {
        graph(&[
            ("main.rs", "use crate::a::f;"),
            ("a.rs", "use crate::b::f;"),
            ("b.rs", "use crate::c::f;"),
            ("c.rs", "use crate::d::f;"),
            ("d.rs", last),
        ])
    }

    #[test]
    fn files_without_a_circle_pass() {
        let graph = chain("");
        assert_eq!(graph.circles(), Vec::<Vec<&str>>::new());
        graph.assert_circles_have_at_most(1);
    }

    #[test]
    fn a_circle_through_several_files_is_found() {
        let graph = chain("use crate::a::f;");
        assert_eq!(graph.circles(), [["a.rs", "b.rs", "c.rs", "d.rs"]]);
        graph.assert_circles_have_at_most(4);
    }

    #[test]
    #[should_panic(expected = "d.rs -> a.rs")]
    fn a_circle_that_is_too_large_fails() {
        chain("use crate::a::f;").assert_circles_have_at_most(3);
    }

    #[test]
    fn the_largest_circle_comes_first() {
        let graph = graph(&[
            ("lib.rs", ""),
            ("a.rs", "use crate::b::f;"),
            ("b.rs", "use crate::a::f;"),
            ("c.rs", "use crate::d::f;"),
            ("d.rs", "use crate::e::f;"),
            ("e.rs", "use crate::c::f;"),
        ]);
        let circles = graph.circles();
        assert_eq!(
            circles,
            [vec!["c.rs", "d.rs", "e.rs"], vec!["a.rs", "b.rs"]]
        );
    }
}
