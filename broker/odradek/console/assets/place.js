// Which cluster the page is about. "" where the console has only one, which no address then names.

export const place = { cluster: "" };
