"""Documents, and how they are made pages of HTML: below everything that has something to say."""
