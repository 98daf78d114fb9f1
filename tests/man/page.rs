//! The pages, from the definition of the command line, the table of mount options, and the prose in `text`.

use std::io;

use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use pcapzst::cli::args::Args;
use pcapzst::cli::exit::Exit;
use pcapzst::fuse::options::table::{REST, WORDS};

use crate::text::{COMMON_FILES, DATE, HELPER, MANUAL, PAGES, Prose, environment};

const NOTE: &str =
    ".\\\" Made by tests/man.rs from src/cli/args.rs and src/fuse/options/table.rs: do not edit.\n";
/// What `roff` begins everything with that it writes: apostrophes as themselves.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Each page's file name and text.
pub fn all() -> Vec<(String, String)> {
    // `help` is clap's own, and has no page.
    let mut top = Args::command().disable_help_subcommand(true);
    top.build();
    let mut pages = vec![("pcapzst.1".to_owned(), of_command(&top))];
    for command in top.get_subcommands() {
        let name = format!("{}.1", command.get_display_name().unwrap());
        pages.push((name, of_command(command)));
    }
    pages.push(("mount.pcapzst.8".to_owned(), of_helper()));
    pages
}

fn of_command(command: &Command) -> String {
    let prose = PAGES
        .iter()
        .find(|prose| prose.command == command.get_name())
        .unwrap_or_else(|| panic!("tests/man/text.rs says nothing of {}", command.get_name()));
    let title = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(command.clone())
        .title(title.to_uppercase())
        .date(DATE)
        .source(concat!("pcapzst ", env!("CARGO_PKG_VERSION")))
        .manual(MANUAL);
    let mut page = Page::new();
    page.made(|out| man.render_title(out));
    page.made(|out| man.render_name_section(out));
    page.synopsis(command);
    page.section("DESCRIPTION");
    page.paragraphs(&[&format!("{}.", command.get_about().unwrap())]);
    page.text.push_str(".PP\n");
    page.paragraphs(prose.more);
    page.made(|out| man.render_options_section(out));
    if command.has_subcommands() {
        page.commands(command);
    }
    if command.get_name() == "mount" {
        page.mount_options();
    }
    page.rest(prose);
    wrapped(&page.text)
}

/// The page of the mount helper, which has no definition in clap.
fn of_helper() -> String {
    let mut page = Page::new();
    let mut roff = Roff::new();
    roff.control(
        "TH",
        [
            "MOUNT.PCAPZST",
            "8",
            DATE,
            concat!("pcapzst ", env!("CARGO_PKG_VERSION")),
            MANUAL,
        ],
    );
    roff.control("SH", ["NAME"]);
    roff.text([roman(
        "mount.pcapzst - mount a folder of packet captures, called by mount(8)",
    )]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([
        bold("mount.pcapzst "),
        italic("SOURCE MOUNTPOINT "),
        roman("["),
        bold("-sfnv"),
        roman("] ["),
        bold("-o "),
        italic("OPT[,OPT…]"),
        roman("] ["),
        bold("-t "),
        italic("TYPE"),
        roman("] ["),
        bold("-N "),
        italic("NAMESPACE"),
        roman("]"),
    ]);
    page.add(&roff);
    page.section("DESCRIPTION");
    page.paragraphs(HELPER.more);
    page.mount_options();
    page.rest(&HELPER);
    wrapped(&page.text)
}

struct Page {
    text: String,
}

impl Page {
    fn new() -> Self {
        Self {
            text: format!("{NOTE}{PREAMBLE}"),
        }
    }

    fn made(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) {
        let mut made = Vec::new();
        write(&mut made).unwrap();
        let made = String::from_utf8(made).unwrap();
        self.text.push_str(made.strip_prefix(PREAMBLE).unwrap());
    }

    fn add(&mut self, roff: &Roff) {
        self.made(|out| roff.to_writer(out));
    }

    fn section(&mut self, name: &str) {
        let mut roff = Roff::new();
        roff.control("SH", [name]);
        self.add(&roff);
    }

    /// Options with their values, then arguments, and `…` where there may be several.
    fn synopsis(&mut self, command: &Command) {
        self.section("SYNOPSIS");
        let name = command.get_bin_name().unwrap_or(command.get_name());
        let mut line = vec![bold(name)];
        let is_shown = |arg: &&Arg| {
            !arg.is_positional()
                && !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version)
        };
        for arg in command.get_arguments().filter(is_shown) {
            line.push(roman(" ["));
            let short = arg.get_short().map(|short| format!("-{short}"));
            let long = arg.get_long().map(|long| format!("--{long}"));
            let spellings: Vec<String> = short.into_iter().chain(long).collect();
            line.push(bold(spellings.join("|")));
            if matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
                line.push(roman(" "));
                line.push(italic(value_of(arg)));
            }
            line.push(roman("]"));
        }
        for arg in command.get_positionals() {
            line.push(roman(" "));
            line.push(italic(value_of(arg)));
            if matches!(arg.get_action(), ArgAction::Append) {
                line.push(roman("…"));
            }
        }
        if command.has_subcommands() {
            line.push(roman(" "));
            line.push(italic("COMMAND"));
            line.push(roman(" [ARGUMENT…]"));
        }
        let mut roff = Roff::new();
        roff.text(line);
        self.add(&roff);
    }

    fn commands(&mut self, command: &Command) {
        self.section("COMMANDS");
        let mut roff = Roff::new();
        for sub in command.get_subcommands() {
            roff.control("TP", []);
            let page = sub.get_display_name().unwrap();
            roff.text([bold(page), roman("(1)")]);
            roff.text([roman(sub.get_about().unwrap().to_string())]);
        }
        self.add(&roff);
    }

    fn mount_options(&mut self) {
        self.section("MOUNT OPTIONS");
        let mut roff = Roff::new();
        for word in WORDS {
            roff.control("TP", []);
            match word.value {
                Some(value) => roff.text([bold(format!("{}=", word.name)), italic(value)]),
                None => roff.text([bold(word.name)]),
            };
            roff.text([roman(word.means)]);
        }
        roff.control("PP", []);
        roff.text([roman(REST)]);
        self.add(&roff);
    }

    fn paragraphs(&mut self, paragraphs: &[&str]) {
        let mut roff = Roff::new();
        for (index, paragraph) in paragraphs.iter().enumerate() {
            if index > 0 {
                roff.control("PP", []);
            }
            roff.text(marked(paragraph));
        }
        self.add(&roff);
    }

    /// What ends every page.
    fn rest(&mut self, prose: &Prose) {
        self.section("EXIT STATUS");
        let mut roff = Roff::new();
        for exit in Exit::ALL {
            roff.control("TP", []);
            roff.text([bold((exit as u8).to_string())]);
            roff.text([roman(exit.meaning())]);
        }
        if prose.is_about_mounts {
            roff.control("SH", ["ENVIRONMENT"]);
            for (name, about) in environment() {
                roff.control("TP", []);
                roff.text([bold(name)]);
                roff.text(marked(&about));
            }
        }
        let files: Vec<_> = COMMON_FILES
            .iter()
            .filter(|_| prose.is_about_mounts)
            .chain(prose.files)
            .collect();
        if !files.is_empty() {
            roff.control("SH", ["FILES"]);
        }
        for (file, about) in files {
            roff.control("TP", []);
            roff.text([italic(*file)]);
            roff.text(marked(about));
        }
        roff.control("SH", ["EXAMPLES"]);
        for (index, (about, lines)) in prose.examples.iter().enumerate() {
            if index > 0 {
                roff.control("PP", []);
            }
            roff.text(marked(about));
            roff.control("PP", []);
            roff.control("RS", ["4"]);
            roff.control("nf", []);
            for line in *lines {
                roff.text([roman(*line)]);
            }
            roff.control("fi", []);
            roff.control("RE", []);
        }
        roff.control("SH", ["SEE ALSO"]);
        let mut see = Vec::new();
        for (index, page) in prose.see.iter().enumerate() {
            if index > 0 {
                see.push(roman(", "));
            }
            let (name, section) = page.split_once('(').unwrap();
            see.push(bold(name));
            see.push(roman(format!("({section}")));
        }
        roff.text(see);
        self.add(&roff);
    }
}

fn value_of(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some(names) => names.join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

/// Text where what stands in backticks is bold.
fn marked(text: &str) -> Vec<Inline> {
    text.split('`')
        .enumerate()
        .filter(|(_, part)| !part.is_empty())
        .map(|(index, part)| {
            if index % 2 == 1 {
                bold(part)
            } else {
                roman(part)
            }
        })
        .collect()
}

/// `text` with what the formatter fills in lines of 74 bytes at most (mandoc counts an ellipsis as eight, and warns from 80 on):
/// not examples, nor the tags of lists.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    let (mut is_filled, mut is_tag) = (true, false);
    // What clap_mangen puts before possible values: breaks that do nothing.
    let text = text.replace("\n.br\n\n.br\n", "\n.sp\n");
    for line in text.lines() {
        if line == ".nf" || line == ".fi" {
            is_filled = line == ".fi";
        }
        let is_prose = is_filled && !is_tag && !line.starts_with(['.', '\'']);
        is_tag = line == ".TP";
        if !is_prose {
            lines.push(line.to_owned());
            continue;
        }
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.len() + 1 + word.len() > 74 {
                lines.push(std::mem::take(&mut current));
                // Not a request.
                if word.starts_with(['.', '\'']) {
                    current.push_str("\\&");
                }
            } else if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines.join("\n") + "\n"
}
