"""What people read: documents, pages of HTML, and what a run looks like on them."""
