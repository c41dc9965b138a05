//! Development tasks that are not part of the program: `cargo xtask help`.

#![allow(clippy::print_stdout, reason = "a program for people: its results go to standard output")]

use clap::{Parser, Subcommand};

mod articles;
mod bench;
mod book;
mod dist;
mod link;
mod table;
mod torture;
mod ui;

/// Development tasks
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct XtaskArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    Articles(articles::ArticlesArgs),
    Bench(bench::BenchArgs),
    Book(book::BookArgs),
    Dist(dist::DistArgs),
    #[command(hide = true)]
    Environment(torture::environment::command::EnvironmentArgs),
    Link(link::LinkArgs),
    Torture(torture::TortureArgs),
    Ui(ui::UiArgs),
}

fn main() -> anyhow::Result<()> {
    match XtaskArgs::parse().task {
        Task::Articles(args) => articles::run(&args),
        Task::Bench(args) => bench::run(args),
        Task::Book(args) => book::run(args),
        Task::Dist(args) => dist::run(args),
        Task::Environment(args) => torture::environment::command::run(args),
        Task::Link(args) => link::run(args),
        Task::Torture(args) => torture::run(&args),
        Task::Ui(args) => ui::run(&args),
    }
}
