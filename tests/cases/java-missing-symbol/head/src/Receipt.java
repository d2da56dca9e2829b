public class Receipt {
    public String id() {
        return "r-7";
    }
}
