//! The project of the demo, and the changes of its agents.

/// Name of the project.
pub(super) const PROJECT: &str = "shop";

/// Files of the project.
pub(super) const FILES: [(&str, &str); 3] = [
    ("README.md", "# Shop\n\nOpening hours and prices.\n"),
    ("hours.txt", "Mon-Fri 9-17\n"),
    ("prices.txt", "apple 1.00\nbread 2.50\ncoffee 3.00\n"),
];

/// The file that two agents change.
pub(super) const CONTESTED: &str = "prices.txt";

/// The change of an agent.
pub(super) struct Part {
    pub(super) agent: &'static str,
    pub(super) command: &'static str,
    pub(super) message: &'static str,
}

/// The changes. The last two are in the same line.
pub(super) const PARTS: [Part; 3] = [
    Part {
        agent: "ann",
        command: "echo 'Sat 10-14' >> hours.txt",
        message: "open on Saturday",
    },
    Part {
        agent: "ben",
        command: "sed -i 's/^coffee .*/coffee 3.20/' prices.txt",
        message: "milk costs more",
    },
    Part {
        agent: "cleo",
        command: "sed -i 's/^coffee .*/coffee 2.90/' prices.txt",
        message: "a lower price sells more",
    },
];
